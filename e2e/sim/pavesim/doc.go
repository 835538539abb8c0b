// Package pavesim runs host machines with their nodes in one process: what the operator decides about
// them, what a shard keeps and hands on, and the pavers that build them.
//
// The operator's controllers of versions, selection, hosts, rollouts, operations and certificate signing requests, server/hosts
// with its object storage, and the paver with its journal on a real disk are the real ones. Around them
// are models: an API server with caches that lag (package cluster), hosts with the fake runner and kubelets
// in its machines (package machine, kubelets.go), leaders that come and go (package shard), agents that
// remember and repeat (hosts.go), what drains Nodes (rollouts.go), processes of an executor that race and die (operations.go),
// and users, who edit templates, delete Nodes, pause and pin machines, delete HostMachines, and ask for operations (verbs.go).
//
// One thing happens after another, in an order that the seed draws, in the time of testing/synctest. A
// process of the operator does one thing at a time, and before each answer of the API server everybody else
// may go on for some seconds; a paver stands still before each look and each step. What goes wrong is
// drawn: a process of the operator ends before a write or after it, a leader at a write to its storage, a
// paver before a step, within it or after it and before its journal is written; answers are lost, calls
// refused, words repeated. Plans bring outages of the API server, agents that are away, power cuts,
// systemd-nspawn that is killed, and lost journals.
//
// Each write and each step is held against what is so, not against what the writer believed (oracle.go,
// brake.go, budget.go, opchecks.go). When the faults have ended every machine has to run one slot whose Node has joined, or to say
// that it has failed, and nothing more may be begun (settle.go).
package pavesim
