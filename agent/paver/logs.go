package paver

import (
	"context"
	"maps"
	"strconv"

	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/logs"
	"nstance.dev/agent/paver/operation"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// collected are the logs of an operation, and what the server has said of them. They are in memory alone: a process that comes
// later collects them again, which the server stores under the same key.
type collected struct {
	message *nstancev1.MachineLogs // nil: they are sent no more
	results map[string]string      // of the operation, but for the key
	said    *nstancev1.MachineLogsStored
}

// stored is what was said of the logs of an operation.
func (c collected) stored(id string) operation.Stored {
	switch {
	case c.said.GetOperationId() != id:
		return operation.Stored{}
	case c.said.GetKey() == "":
		return operation.Stored{Refused: journal.Cut(c.said.GetRefused())}
	}
	results := map[string]string{"key": journal.Cut(c.said.GetKey())}
	if c.message.GetOperationId() == id {
		maps.Copy(results, c.results)
	}
	return operation.Stored{Results: results}
}

// handover is what a [Paver] does about logs.
type handover struct{ *Paver }

// collect collects the logs that an operation asks for, and has them sent with the next report.
func (p handover) collect(ctx context.Context, r operation.Record, slot journal.Slot) error {
	found, err := p.opts.Executor.Collect(ctx, r, slot, p.secrets())
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.orders.logs = collected{
		message: &nstancev1.MachineLogs{OperationId: r.ID, Content: found.Content},
		results: map[string]string{
			"entries": strconv.Itoa(found.Entries), "omitted": strconv.Itoa(found.Omitted), "bytes": strconv.Itoa(len(found.Content)),
		},
	}
	return nil
}

// answered notes what the server says of logs. What it says of another operation than the current one is of no use.
func (p handover) answered(s *nstancev1.MachineLogsStored) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, is := p.orders.book.Current(); is && r.ID == s.GetOperationId() && (s.GetKey() != "" || s.GetRefused() != "") {
		p.orders.logs.said = s
	}
}

// Logs are those that the server is to store; nil: there are none.
func (p *Paver) Logs() *nstancev1.MachineLogs {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, is := p.orders.book.Current()
	if c := p.orders.logs; is && c.message.GetOperationId() == r.ID && c.said == nil {
		return c.message
	}
	return nil
}

// secrets are those that the host was told, which must not be in its logs.
func (p handover) secrets() (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.inbox.credential
	if p.inbox.later != nil && p.inbox.later.credential != nil {
		all = append(all, p.inbox.later.credential.GetToken())
	}
	all = append(all, c.GetToken())
	for _, document := range c.GetPullSecrets() {
		all = append(all, logs.Leaves(document)...)
	}
	return all
}
