// Package gateway is the operators' service of shards as HTTP and JSON, for programs that
// do not speak gRPC.
//
// Each call of the service has a path below /v1/shards/{shard}, as operator.yaml says;
// its messages are those of the wire contract in the JSON of protocol buffers. Streams are
// server-sent events. Errors are google.rpc.Status as JSON, under the HTTP status that
// fits. openapi.json, which is embedded, describes all of it.
//
// A [Gateway] speaks with the identity of its connections, of one tenant, and asks nobody
// who calls: its caller has found that out, and says with an [Access] what is allowed.
// Nothing of a request but its path, query and body goes on to a shard: no header, and so
// no token of a caller.
//
// To renew a certificate is not offered: it would be the gateway's own.
package gateway
