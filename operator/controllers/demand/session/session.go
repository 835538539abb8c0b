package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"

	"nstance.dev/operator/demand/outbound"
	"nstance.dev/operator/demand/states"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

// protocol is the version of the contract that is spoken.
const protocol = "v1alpha1"

// What a session may take.
const (
	helloTimeout = 15 * time.Second
	mostBytes    = 4 << 20 // of one message, in both directions: what a server takes at most
)

// capabilities are what this operator can do, as hello names it.
var capabilities = []string{"node-reports", "refuse-reclaim", "cancel-reclaim"}

// message is an answer that waits to be sent.
type message = demandpb.OperatorMessage

// session is one stream with a shard.
type session struct {
	link    *link
	address string
	log     *slog.Logger
	// reclaim hands an instruction on, which outlives the session.
	reclaim func(*demandpb.ReclaimInstruction)
	stood   bool          // the shard agreed; read once run has returned
	news    chan struct{} // holds one token while something waits to be sent
	tasks   sync.WaitGroup

	mu         sync.Mutex
	ended      bool // no further task begins
	queue      outbound.Queue[*message, Rollup]
	forget     uint64 // the last roll-up that was rejected
	bootstraps int    // that are being answered
	states     *states.States
	whole      bool // the snapshot was taken in
	capacities *lane[*demandpb.AvailableCapacityUpdate]
}

func newSession(l *link, address string, reclaim func(*demandpb.ReclaimInstruction)) *session {
	return &session{
		link: l, address: address, log: l.log, reclaim: reclaim, news: make(chan struct{}, 1), states: states.New(), capacities: newLane[*demandpb.AvailableCapacityUpdate](),
		queue: outbound.Queue[*message, Rollup]{Room: l.opts.Outbox},
	}
}

// run carries the session until it ends, and returns why. Nothing of it goes on after that
// but instructions.
func (c *session) run(ctx context.Context, client demandpb.ShardServiceClient) error {
	ctx, end := context.WithCancelCause(ctx)
	defer c.tasks.Wait()
	defer end(nil)
	stream, err := client.Session(ctx, grpc.MaxCallRecvMsgSize(mostBytes), grpc.MaxCallSendMsgSize(c.link.opts.MaxMessage))
	if err != nil {
		return fmt.Errorf("open session: %w", err)
	}
	silent := time.AfterFunc(helloTimeout, func() { end(errNoAnswer) })
	defer silent.Stop()
	if err := stream.Send(c.hello()); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("send hello: %w", err)
	}
	first, err := stream.Recv()
	if err != nil {
		return reason(ctx, err)
	}
	silent.Stop()
	if err := c.begin(ctx, first.GetAck()); err != nil {
		return err
	}
	defer c.over()
	c.task(func() {
		if err := c.send(ctx, stream); err != nil {
			end(err)
		}
	})
	for {
		m, err := stream.Recv()
		if err != nil {
			return reason(ctx, err)
		}
		c.receive(ctx, m)
	}
}

// reason is why a session ended that cannot be received from.
func reason(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case cause != nil:
		return cause
	case errors.Is(err, io.EOF):
		return errEnded
	}
	return err
}

// task runs a part of the session beside it, unless it is over.
func (c *session) task(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.tasks.Go(f)
	}
}

func (c *session) hello() *message {
	o := c.link.opts
	return &message{Kind: &demandpb.OperatorMessage_Hello{Hello: &demandpb.Hello{
		ClusterId: o.Cluster, Tenant: o.Tenant, ProtocolVersion: protocol, OperatorInstance: o.Instance, Capabilities: capabilities,
	}}}
}

// begin takes the answer to hello: from now on the session stands.
func (c *session) begin(ctx context.Context, ack *demandpb.Acknowledgement) error {
	if ack.GetKind() != demandpb.Acknowledgement_KIND_HELLO || ack.GetSnapshotId() == 0 {
		return errNoHello
	}
	c.stood = true
	c.mu.Lock()
	c.states.Announce(ack.GetSnapshotId(), int(ack.GetSnapshotSize()))
	c.mu.Unlock()
	c.log.InfoContext(ctx, "demand session opened", "address", c.address, "epoch", ack.GetShardEpoch(), "machines", ack.GetSnapshotSize())
	c.link.stand(c)
	if opened := c.link.opts.Handlers.Opened; opened != nil {
		opened(c.link.name)
	}
	c.resync(ctx) // a snapshot may be empty
	return nil
}

// over says that the session stands no longer.
func (c *session) over() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.link.stand(nil)
	if closed := c.link.opts.Handlers.Closed; closed != nil {
		closed(c.link.name)
	}
}
