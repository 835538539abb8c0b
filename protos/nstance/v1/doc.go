// Package nstancev1 is the wire contract of Nstance: what agents, operators, command
// lines and servers say to each other over gRPC.
//
// The .proto files beside this one are the source and the API reference; the rest of
// the package is generated from them and committed, so that building needs no
// protobuf tools. Regenerate with `make generate`.
//
// The contract grows by adding: no field or call changes its number, name or meaning.
// A receiver ignores what it does not know. Statuses, reasons and classes are strings,
// so a client must expect values that it has never heard of. In requests that change
// something an absent field means "leave as it is"; maps and lists are wrapped
// ([StringMap], [StringList]) so that absent differs from empty.
//
// The package leaves checking to others: a decoded message is well formed and nothing
// more.
package nstancev1
