// Package prebuild decides on which machines of a MachineConfiguration its newest version is prepared, and when
// (M64): that hosts fetch what it is built from, or build their idle slots, in the background, before a rollout or a
// user has the machines repaved.
//
// [Observe] makes an [Input] of objects and of what hosts report, and [Decide] a [Decision] of that and of the time:
// steps in their order, each with its reason, and what the configuration's status says. [Awaited] says to a
// rollout why it has to wait for a machine (M95). All are functions of their arguments.
//
// What a caller must know:
//
//   - The bound counts machines whose status says Running. So that is written before a host is asked, and a caller
//     that reads from a cache adds what it has written itself.
//   - What is withdrawn counts until its host says that it has stopped: a shard that cannot be told, or a leader that forgets,
//     leaves a host at work. So does a host of which nobody knows why it works (Stray). A caller says with
//     [Host.Withdrawn] that the shard has taken a withdrawal.
//   - A preparation ends in [Longest] at the latest: it is withdrawn then, and a rollout waits for it no longer. Its place is
//     free when its host has stopped, as far as that is heard from; of a silent one, at once.
package prebuild
