// Package groups keeps what the groups of one shard should be, for one leader's term: the
// configuration and the group file, merged. It is the only writer of the group file.
//
//   - [Store.Load] reads the file at a take-over and writes it under the leader's term. One
//     that is missing or unreadable is rebuilt from its last copy and the records of the
//     instances; each group then waits to be confirmed (F10, F11). One that this program
//     cannot understand or write is left alone, and all groups are blocked: what the dynamic ones
//     should be is unknown, and of static ones whether they are paused.
//   - [Store.Upsert], [Store.Delete], [Store.Retire], [Store.SetPause] and the like are edits
//     of the file. They return once the edit is durable; edits that wait share one write, and
//     each gets its own answer. [Store.Run] makes the writes.
//   - [Store.Apply] puts another configuration in force.
//   - [Store.Group], [Store.Effective], [Store.Find] and [Store.All] say what is in force.
//   - [Store.ReserveInstance] takes room in a tenant's quota for what no file shows.
//
// Nothing is written that the next leader could not read: each edit is read back with the
// reader's own checks before it is kept, and a file that was rebuilt is read back as a whole
// (S24). Whoever asks for more than that is refused, and nobody else.
//
// What the two files mean is left to the packages below config; what is done about a group, and
// what callers are shown of it, to the callers. Errors of what a tenant asks for are those of the
// caller's context, or [refusal.Error]s, which may be shown.
//
// What is in force is replaced as a whole and never changed, so that reading takes no lock.
//
// Lock order: of that of what is in force and that of the room in quotas none is taken under
// the other; the cache's is taken under each. Nobody else is called under them, and Changed
// under none.
package groups
