package shards

import "time"

// Sink receives the state of the connections. Each stream has a sink of its own: [GroupSink],
// [InstanceSink], [ErrorSink], [MachineSink].
//
// The methods of all sinks must not block for long and must be safe for concurrent use: the
// streams and lists of a shard, and of different shards, call them from goroutines of their
// own. Messages belong to the sink. What names another tenant than the certificate's has been
// left out.
//
// An event is delivered in order with the others of its stream. Between a list and the
// events the order is not that of the server: revisions tell which is newer.
type Sink interface {
	// StateChanged reports a new status. After the shard was removed there is none.
	StateChanged(shard string, status Status)
	// Removed reports that the shard is no longer in the configuration. Nothing follows.
	Removed(shard string)
}

// Observer hears what happens, for metrics. Nil functions are left out.
type Observer struct {
	// Call reports a unary call with its code and duration.
	Call func(shard, method, code string, took time.Duration)
	// Restart reports the end of a stream and why: a class of failure, or `silent`.
	Restart func(shard, stream, reason string)
	// ForeignTenant reports that a server sent what belongs to another tenant.
	ForeignTenant func(shard string)
}

func (o Observer) call(shard, method, code string, took time.Duration) {
	if o.Call != nil {
		o.Call(shard, method, code, took)
	}
}

func (o Observer) restart(shard, stream, reason string) {
	if o.Restart != nil {
		o.Restart(shard, stream, reason)
	}
}

func (o Observer) foreignTenant(shard string) {
	if o.ForeignTenant != nil {
		o.ForeignTenant(shard)
	}
}
