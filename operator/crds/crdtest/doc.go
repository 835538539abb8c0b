// Package crdtest says what the API server must take and refuse of the operator's kinds:
// a table of requests, and a judge that answers them without a server.
//
// The judge does what an API server does with a custom resource, by the API server's own
// code: defaults, pruning, schema, lists, CEL rules with the old object. It knows nothing
// of admission: policies and webhooks have tables of their own. The same table is meant
// to be put to a real server, which must agree.
package crdtest
