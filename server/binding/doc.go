// Package binding says which moves there are for the binding of an instance: that it is meant for a
// cluster, is configured for it, serves it, is drained and leaves it.
//
// The life of an instance, which is that of its machine, and its binding are kept apart: package fleet
// says what becomes of the one, this package what becomes of the other, and [Of] what both together
// are to package demand. The binding stands in the record of the instance:
//
//	none ─▶ intent ─▶ configuring ─▶ bound ─▶ draining ─▶ none
//	  ▲       │ ▲          │ │         ▲          │
//	  ├───────┘ └──────────┘ │         └──────────┘ the drain was given up
//	  └──────────────────────┘ it failed
//
// The functions that change a record are for [layout.InstanceRecord] copies inside a change of package
// instances: they do nothing else, may be called again on a newer version, and leave the record as it
// was where they return an error. When to call them, and what is done about the machine, is left to
// package demandloop.
package binding
