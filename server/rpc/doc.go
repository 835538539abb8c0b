// Package rpc is the gRPC face of a server: three listeners, who may call what
// on them, and how an error looks outside. What a call does stands in packages
// operatorapi, operatorauth and agents.
//
//   - [NewRegistrationServer] is open to everybody who can reach it. What costs
//     something - a signature, a read of storage - comes after what costs
//     nothing, and after a limit for each source (F41). Only the nonce of an
//     instance that waits to register is let past the limit.
//   - [NewAgentServer] serves the one stream of each agent.
//   - [NewOperatorServer] serves the operators of all tenants.
//
// The rules that hold on all of them:
//
//   - Role, tenant and name of a caller come from its certificate, checked for
//     each call and not just in the handshake (S11). No field names a tenant.
//   - A server that does not lead answers Unavailable, with the address of the
//     leader's same service in the trailer [identity.LeaderTrailer], where it is known.
//   - Errors have a code, a text for people and a reason for machines
//     (google.rpc.ErrorInfo in the domain "nstance"). What an error wraps is for
//     the log alone (S12).
//   - Messages, headers, streams, handshakes and waiting are bounded (S22).
//
// Lock order: that of the attempts and that of the refusals are each taken alone, and nobody
// is called under either.
package rpc
