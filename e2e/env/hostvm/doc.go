// Package hostvm runs a host of node machines as a virtual machine of QEMU: one with a kernel of its
// own, systemd as its first process, and control groups of version 2 with all controllers. What a box
// lacks of these its tests find there.
//
// image.sh makes the disk that hosts begin with, once. A [Host] is switched on by the user data that it
// gives for an instance of provider local ([Host.UserData]): the process of that machine is the power
// supply, so that the machine runs as long as its host has power, is gone when the host switches itself
// off, and ends with its instance, or with the process that has made the host. Tests cut the power ([Host.CutPower]): what the host has not synced
// is lost, as its memory is. They read its console, which is a file here, and run commands in it.
//
// The host reaches this box at every address that this box has, but for those of its loopback
// interface; nobody reaches the host, but for [Host.Run].
package hostvm
