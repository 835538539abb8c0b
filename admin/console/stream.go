package console

import (
	"encoding/json"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"

	"nstance.dev/admin/gateway"
	"nstance.dev/admin/hub"
)

// batch is how many instances one event carries at most.
const batch = 1000

// events answers with all that is shown, and then with what changes, until the session ends.
func (s *Server) events(w http.ResponseWriter, r *http.Request, who session) {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		gateway.WriteError(w, gateway.Errorf(codes.ResourceExhausted, "TOO_MANY_STREAMS", "%d browsers look already, which is as many as there may be", cap(s.streams)))
		return
	}
	reader := s.opts.Hub.Subscribe()
	defer reader.Close()
	out := gateway.NewEvents(w, s.opts.WriteTimeout)
	if out.Begin() != nil {
		return // the browser is gone
	}
	over := time.NewTimer(who.ends.Sub(s.opts.Now()))
	defer over.Stop()
	heartbeat := time.NewTicker(s.opts.Heartbeat)
	defer heartbeat.Stop()
	collect := time.NewTimer(0)
	defer collect.Stop()
	wake := reader.Wake()
	for first := true; ; {
		var err error
		select {
		case <-wake:
			// What follows at once belongs to the same event.
			wake = nil
			if first {
				collect.Reset(0)
			} else {
				collect.Reset(s.opts.Collect)
			}
		case <-collect.C:
			if wake != nil {
				continue // the timer of before the first change
			}
			err = s.tell(out, reader.Take(), first)
			first, wake = false, reader.Wake()
		case <-heartbeat.C:
			err = sendJSON(out, "ping", map[string]time.Time{"now": s.opts.Now().UTC()})
		case <-over.C:
			return // the page asks again, and is told to log in
		case <-r.Context().Done():
			return
		}
		if err != nil {
			return // the browser is gone, or takes nothing
		}
	}
}

// tell sends an update.
func (s *Server) tell(out *gateway.Events, u hub.Update, first bool) error {
	var err error
	add := func(name string, v any) {
		text, failed := json.Marshal(v)
		if failed != nil {
			err = failed
			return
		}
		out.Add(name, text)
	}
	for _, sh := range u.Shards {
		if sh.Status != nil {
			add("shard", sh.Status)
		}
		s.tellObjects(add, sh)
	}
	for _, text := range u.Events {
		out.Add("event", text)
	}
	for _, text := range u.Failures {
		out.Add("failure", text)
	}
	if u.Dropped > 0 {
		add("gap", map[string]int{"dropped": u.Dropped})
	}
	if u.Recent != nil {
		add("recent", u.Recent)
	}
	if first {
		add("ready", struct{}{})
	}
	if err != nil {
		return err
	}
	return out.Flush()
}

// groupName names a group that is gone.
type groupName struct {
	Tenant string `json:"tenant"`
	Key    string `json:"key"`
}

func (s *Server) tellObjects(add func(string, any), sh hub.ShardUpdate) {
	if g := sh.Groups; !g.Empty() {
		deleted := make([]groupName, len(g.Deleted))
		for i, key := range g.Deleted {
			deleted[i] = groupName{s.opts.Who.Tenant, key}
		}
		add("groups", struct {
			Shard    string            `json:"shard"`
			Snapshot bool              `json:"snapshot"`
			Groups   []json.RawMessage `json:"groups"`
			Deleted  []groupName       `json:"deleted"`
		}{sh.Name, g.Snapshot, notNil(g.Objects), deleted})
	}
	for rest, begin := sh.Instances, true; begin && !rest.Empty() || len(rest.Objects) > 0; begin = false {
		n := min(batch, len(rest.Objects))
		add("instances", struct {
			Shard     string            `json:"shard"`
			Snapshot  bool              `json:"snapshot"`
			First     bool              `json:"first"`
			Last      bool              `json:"last"`
			Instances []json.RawMessage `json:"instances"`
			Deleted   []string          `json:"deleted"`
		}{sh.Name, rest.Snapshot, begin, n == len(rest.Objects), notNil(rest.Objects[:n]), append([]string{}, rest.Deleted...)})
		rest.Objects, rest.Deleted = rest.Objects[n:], nil
	}
	if m := sh.Machines; !m.Empty() {
		add("machines", struct {
			Shard    string            `json:"shard"`
			Snapshot bool              `json:"snapshot"`
			Machines []json.RawMessage `json:"machines"`
			Deleted  []string          `json:"deleted"`
		}{sh.Name, m.Snapshot, notNil(m.Objects), append([]string{}, m.Deleted...)})
	}
}

func notNil(list []json.RawMessage) []json.RawMessage { return append([]json.RawMessage{}, list...) }

func sendJSON(out *gateway.Events, name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return out.Send(name, text)
}
