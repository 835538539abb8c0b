// Package simulate says what a shard would buy for needs that a file describes: it makes the offers of
// a configuration as a server does, hands the needs to the engine of demand mode as its tenants'
// clusters would, and reports the first decision.
//
// There are no machines yet when it is made, every operator is connected, and nothing is paused. It
// knows of the provider what the configuration and a listing of instance types say, and asks nobody.
package simulate
