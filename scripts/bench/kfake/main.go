// kfake runs franz-go's fake broker as a process, so that scripts/bench/compare.py can measure it beside the real ones.
//
//	kfake PORT
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	port, err := strconv.Atoi(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "kfake PORT:", err)
		os.Exit(2)
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer cluster.Close()
	fmt.Println("kfake listens on", cluster.ListenAddrs())
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt)
	<-stop
}
