// Package prebuild decides what nstance-paver prepares in the background while the machine of its host
// runs (M64): that the image and the artifacts of a later one are fetched, and that the idle slot is built.
//
// [Next] is a pure function of the journal, the last accepted assignment and the time, and [After] says
// what the journal is once a step was carried out. As in package transition nothing is remembered between
// the two, so a process that is killed at any instruction goes on from the journal, and each step may be
// carried out again. The rules that it keeps:
//
//   - Nothing is prepared while a machine is switched, or about to be: an assignment ends a prebuild.
//   - The active slot is never touched, and nothing is started.
//   - The journal says that the idle slot holds nothing before what it holds is removed.
//   - What fails three times is given up. The machine that runs is no worse for it.
//
// What a step does to the host is the business of package host.
package prebuild
