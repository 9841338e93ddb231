#!/bin/bash
# PID 1 of the guest. Its root is the host's, read-only; /mnt/data is the disk that loses its power. Runs the command in $POWERCUT/command.
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
ip link set lo up
mount -t tmpfs mnt /mnt && mkdir /mnt/data
if mount -t "${FILESYSTEM:-ext4}" /dev/ubda /mnt/data; then
    . "$POWERCUT/command"
    echo "guest ended with $?"
else
    echo "guest cannot mount"
fi
exec sleep 10000
