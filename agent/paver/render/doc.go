// Package render decides what is written for a node machine: from an assignment and what is
// known of its host it makes the complete list of files, for the slot that the machine is
// built in and for the host beneath it. It reads and writes nothing, has no clock, and equal
// arguments give equal files, byte by byte. What it prints is therefore what a host builds.
//
// A caller asks [Wanted] which paths of the host matter, finds out about them (package facts
// does), and calls [Render]. The image, artifacts and the slot itself are the business of
// others; so is whether the host's policy allows what is asked for (package policy), which is
// judged first.
//
// How files are written: [File.Path] is below the slot's root or below the host's, see
// [File.Place]. Owner and group are root. Missing directories are made with mode 0755. What
// stands at the path is replaced and never written through: an image may have a link there,
// and a path of a slot must not leave the slot by way of one. Files of the slot are complete
// before it is sealed. Those of the host that name the slot's machine (its .nspawn file and
// its drop-in) may be written while the other slot runs; the others are written when it is
// stopped, then [Plan.Modules] are loaded, [Plan.Sysctls] set, and sshd reloads if there is a
// file below [SSHDir].
//
// Nothing of an assignment becomes part of a command line that a shell reads, or of another
// line, section or path than its own: what cannot be written so is refused. A refusal is an
// [Invalid] and names each field, in the words of the template's author.
package render
