import java.util.HashMap;
import java.util.Map;

/** As Program, with members of share groups (ShareMembers) in place of those of consumer groups. */
public final class ShareProgram {
    private ShareProgram() {}

    public static void main(String[] unused) throws Exception {
        Map<String, Program.Command> commands = new HashMap<>();
        Records.register(commands);
        Administration.register(commands);
        ShareMembers.register(commands);
        Program.serve(commands);
        ShareMembers.leaveAll();
        Administration.closeAll();
    }
}
