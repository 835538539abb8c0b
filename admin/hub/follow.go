package hub

import (
	"context"
	"encoding/json"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// encode writes a message as JSON; one that could not be is an empty object, for none of
// those that a server sends is.
func encode(m proto.Message) json.RawMessage {
	text, err := protojson.Marshal(m)
	if err != nil {
		return json.RawMessage("{}")
	}
	return text
}

// every calls work at once, and again after each interval, until it fails.
func every(ctx context.Context, interval time.Duration, work func() error) error {
	for {
		if err := work(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(interval):
		}
	}
}

func (h *Hub) askInfo(ctx context.Context, s Shard) error {
	return every(ctx, h.opts.Info, func() error {
		info, err := s.API.GetServerInfo(ctx, &emptypb.Empty{})
		if err != nil {
			return err
		}
		leader := ""
		if s.Leader != nil {
			leader = s.Leader()
		}
		h.informed(s.Name, leader, encode(info))
		return nil
	})
}

// beside runs a list, again and again, while a stream is read.
func (h *Hub) beside(ctx context.Context, list func(context.Context) error, read func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		cancel(every(ctx, h.opts.Relist, func() error { return list(ctx) }))
	}()
	err := read(ctx)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	cancel(nil)
	<-done
	return err
}

func (h *Hub) watchGroups(ctx context.Context, s Shard) error {
	return h.beside(ctx, func(ctx context.Context) error { return h.listGroups(ctx, s) }, func(ctx context.Context) error {
		stream, err := s.API.WatchGroups(ctx, &emptypb.Empty{})
		for err == nil {
			var e *nstancev1.GroupEvent
			if e, err = stream.Recv(); err != nil {
				break
			}
			if e.GetType() == "DELETE" {
				h.drop(s.Name, groups, e.GetGroup().GetKey())
				continue
			}
			h.put(s.Name, groups, e.GetGroup().GetKey(), e.GetGroup().GetRevision(), encode(e.GetGroup()))
			h.sample(s.Name, e.GetGroup())
		}
		return err
	})
}

func (h *Hub) listGroups(ctx context.Context, s Shard) error {
	began := h.beginList(s.Name, groups)
	list, err := s.API.ListGroups(ctx, &emptypb.Empty{})
	if err != nil {
		return err
	}
	var all []listed
	for _, g := range list.GetGroups() {
		all = append(all, listed{g.GetKey(), g.GetRevision(), encode(g)})
		h.sample(s.Name, g)
	}
	h.settleList(s.Name, groups, began, all)
	return nil
}

func (h *Hub) watchInstances(ctx context.Context, s Shard) error {
	return h.beside(ctx, func(ctx context.Context) error { return h.listInstances(ctx, s) }, func(ctx context.Context) error {
		stream, err := s.API.WatchInstances(ctx, &nstancev1.WatchInstancesRequest{})
		snapshot := true
		for err == nil {
			var e *nstancev1.InstanceEvent
			if e, err = stream.Recv(); err != nil {
				break
			}
			switch e.GetStatus() {
			case "heartbeat":
				continue
			case "snapshot_end":
				snapshot = false
				continue
			case "deleted":
				h.drop(s.Name, instances, e.GetInstanceId())
			default:
				if in := e.GetInstance(); in != nil {
					h.put(s.Name, instances, in.GetInstanceId(), in.GetRevision(), encode(in))
				}
			}
			if !snapshot {
				e.Instance = nil
				h.happened(s.Name, h.stamped(s.Name, e), false)
			}
		}
		return err
	})
}

func (h *Hub) listInstances(ctx context.Context, s Shard) error {
	began := h.beginList(s.Name, instances)
	var all []listed
	for token := ""; ; {
		page, err := s.API.ListInstances(ctx, &nstancev1.ListInstancesRequest{PageToken: token})
		if err != nil {
			return err
		}
		for _, in := range page.GetInstances() {
			all = append(all, listed{in.GetInstanceId(), in.GetRevision(), encode(in)})
		}
		if !page.GetComplete() {
			return nil // absence means nothing yet; the next list will say
		}
		if token = page.GetNextPageToken(); token == "" {
			break
		}
	}
	h.settleList(s.Name, instances, began, all)
	return nil
}

func (h *Hub) watchErrors(ctx context.Context, s Shard) error {
	stream, err := s.API.WatchErrors(ctx, &emptypb.Empty{})
	for err == nil {
		var e *nstancev1.ErrorEvent
		if e, err = stream.Recv(); err == nil {
			h.happened(s.Name, h.stamped(s.Name, e), true)
		}
	}
	return err
}

func (h *Hub) watchMachines(ctx context.Context, s Shard) error {
	stream, err := s.API.WatchMachines(ctx, &nstancev1.WatchMachinesRequest{})
	began, snapshot := h.beginList(s.Name, machines), []listed(nil)
	open := true
	for err == nil {
		var e *nstancev1.MachineEvent
		if e, err = stream.Recv(); err != nil {
			break
		}
		switch e.GetType() {
		case "heartbeat":
		case "snapshot_end":
			if open {
				h.settleList(s.Name, machines, began, snapshot)
			}
			open, snapshot = false, nil
		case "removed":
			h.drop(s.Name, machines, e.GetInstanceId())
		default:
			if open {
				snapshot = append(snapshot, listed{e.GetInstanceId(), 0, encode(e)})
				continue
			}
			h.put(s.Name, machines, e.GetInstanceId(), 0, encode(e))
		}
	}
	return err
}

// stamped is something that has happened, with the shard and the time.
func (h *Hub) stamped(name string, m proto.Message) json.RawMessage {
	text, err := json.Marshal(struct {
		Shard string          `json:"shard"`
		Time  time.Time       `json:"time"`
		Event json.RawMessage `json:"event"`
	}{name, h.opts.Now().UTC(), encode(m)})
	if err != nil {
		return json.RawMessage("{}")
	}
	return text
}
