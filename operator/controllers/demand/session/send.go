package session

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"

	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
	"nstance.dev/protos/rollup"
)

const (
	// largeRollup is from what size on a roll-up is logged as unusually large.
	largeRollup = 1 << 20
	// kindRollup names roll-ups where messages are counted.
	kindRollup = "rollup"
)

// answer queues an answer. False: there is no room, or it is too large to be sent, and it is dropped.
func (c *session) answer(kind string, m *message) bool {
	if bytes := proto.Size(m); bytes > c.link.opts.MaxMessage {
		c.link.opts.Observer.dropped(c.link.name, kind)
		c.log.Error("answer not sent: it is larger than a message may be", "message", kind, "bytes", bytes, "most", c.link.opts.MaxMessage)
		return false
	}
	c.mu.Lock()
	queued := c.queue.Answer(m)
	c.mu.Unlock()
	if !queued {
		c.link.opts.Observer.dropped(c.link.name, kind)
		c.log.Debug("answer dropped: the shard does not read", "message", kind)
		return false
	}
	c.wake()
	return true
}

// rollup queues a roll-up in place of the one that waits.
func (c *session) rollup(r Rollup) {
	c.mu.Lock()
	c.queue.Rollup(r)
	c.mu.Unlock()
	c.wake()
}

func (c *session) wake() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// next takes what is to be sent next, and the roll-up that was rejected last.
func (c *session) next() (answer *message, r *Rollup, rejected uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first, r := c.queue.Next()
	if first != nil {
		answer = *first
	}
	return answer, r, c.forget
}

// outgoing is the part of a stream that is sent on.
type outgoing interface {
	Send(m *demandpb.OperatorMessage) error
}

// send sends what waits until the session ends. Nil: why it ended is heard where it is
// received from.
func (c *session) send(ctx context.Context, to outgoing) error {
	writer := rollup.NewWriter(c.link.opts.Cluster)
	writer.Limit(c.link.opts.MaxMessage)
	for {
		answer, r, rejected := c.next()
		var err error
		switch {
		case answer != nil:
			err = to.Send(answer)
		case r != nil:
			if rejected != 0 {
				writer.Forget(rejected)
			}
			err = c.sendRollup(ctx, to, writer, r)
		default:
			select {
			case <-ctx.Done():
				return nil
			case <-c.news:
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("send: %w", err)
		}
	}
}

// sendRollup sends the parts of a roll-up; answers need not wait for the last of them.
func (c *session) sendRollup(ctx context.Context, to outgoing, writer *rollup.Writer, r *Rollup) error {
	parts, err := writer.Write(c.link.opts.Now(), r.Rows, r.Overheads)
	if err != nil {
		c.link.opts.Observer.dropped(c.link.name, kindRollup)
		c.log.ErrorContext(ctx, "roll-up not sent", "rows", len(r.Rows), "error", err)
		return nil
	}
	bytes := 0
	for i, part := range parts {
		if i > 0 {
			if err := c.sendAnswers(to); err != nil {
				return err
			}
		}
		bytes += proto.Size(part)
		if err := to.Send(&message{Kind: &demandpb.OperatorMessage_Rollup{Rollup: part}}); err != nil {
			return err
		}
	}
	reference := parts[0].GetSameAsSequence() != 0
	c.link.opts.Observer.rollupSent(c.link.name, bytes, len(r.Rows), reference)
	c.log.DebugContext(ctx, "roll-up sent", "sequence", writer.Sequence(), "rows", len(r.Rows), "bytes", bytes, "parts", len(parts), "same_as", parts[0].GetSameAsSequence())
	if bytes > largeRollup {
		c.log.WarnContext(ctx, "large roll-up", "sequence", writer.Sequence(), "rows", len(r.Rows), "bytes", bytes, "parts", len(parts))
	}
	return nil
}

// sendAnswers sends the answers that wait.
func (c *session) sendAnswers(to outgoing) error {
	for {
		c.mu.Lock()
		m := c.queue.NextAnswer()
		c.mu.Unlock()
		if m == nil {
			return nil
		}
		if err := to.Send(*m); err != nil {
			return err
		}
	}
}
