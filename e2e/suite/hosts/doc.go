// Package hosts tests node machines with a real systemd-nspawn and a real systemd in them. It needs
// root, and its build tags: hosts for machines that the tests start themselves, hostservice for
// those that the systemd of the host runs, hostnodes for machines whose kubelet joins a control plane
// by way of operator, server and agent, hostvm for the same on a host that is a virtual machine, with
// systemd, limits of Pods, reboots and losses of power. Where a tag's tests cannot run they fail and say
// why. All but the last wait for each other on one box, from whichever clone they are run.
package hosts
