// Package guest runs what a fake cloud calls a machine: user data, as processes of
// this box.
//
// A [Machine] is a process group and a directory that stands for its disk. It has no
// file system and no network of its own. So user data may be a script for /bin/sh or
// the part of cloud-config that [ParseUserData] names, it finds what it writes under a
// few well-known directories in the machine's own one, and its service manager is a
// script of a hundred lines. That is enough for user data which writes the agent's
// files and starts the agent's service, and it is run as the server rendered it.
//
// What is rewritten: the directories [Mapped], wherever they are named in user data
// and in the files that it writes, become directories of the machine. Everything else
// is this box's, so only user data that somebody trusts may be run.
//
// What ends: everything that the machine started, when it is stopped or killed, and
// when the process that started it ends in whatever way. Only a program that leaves its
// process group gets away.
//
// A stopped machine is started again by another [Start] with the same directory: it
// comes up with its disk, as after a reboot. It starts the services that were enabled
// and does not run its user data a second time, unless [Options.EveryBoot] says so.
//
// The package knows one thing of ours, the agent: every machine has its program at
// /usr/local/bin/nstance-agent, as an image has that was made for it.
package guest
