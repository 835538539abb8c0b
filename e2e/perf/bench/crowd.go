package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"time"

	"google.golang.org/grpc"

	"nstance.dev/agent/link"
	"nstance.dev/protos/identity"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/objectstore/memory"
)

// crowd: one server with two thousand agents, which are clients in a second
// process with real TLS and streams, and report every five seconds.
//
// Ours: the heap in use and the stacks of the server's process, whose stand-ins for
// store and cloud are in it, with its resident memory beside; the 99th of a hundred
// times from an agent's clock when it sends a report until the cache shows it, by a
// look at a part of the agents every two milliseconds; and, after another leader has
// taken over at the same address, the time from the moment it serves until all agents
// are back.
//
// Floors: what the design promises: 128 MiB, 20 ms, 15 s.
const (
	crowdAgents  = 2000
	crowdWatched = 100
	crowdReports = 5 * time.Second
	crowdFor     = 20 * time.Second

	crowdMemory = 128 // MiB
	crowdP99    = 20 * time.Millisecond
	crowdBack   = 15 * time.Second
)

// serverCrowd is the kind of the process.
const serverCrowd = "crowd"

// crowdResult is what the server's process prints.
type crowdResult struct {
	InUse    float64 // bytes
	Resident float64 // bytes
	P99      float64 // seconds
	Back     float64 // seconds
}

func measureCrowd(ctx context.Context, _ Env) ([]Row, error) {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	cmd, err := child(ctx, "server", serverCrowd)
	if err != nil {
		return nil, err
	}
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("crowd: %w", err)
	}
	var r crowdResult
	if err := json.Unmarshal(out, &r); err != nil {
		return nil, fmt.Errorf("crowd says %q: %w", out, err)
	}
	const mib = 1 << 20
	row := Row{Against: "the promise", Goal: AtMost(1)}
	memory, p99, back := row, row, row
	memory.Name = fmt.Sprintf("2,000 agents: heap and stacks (%.0f MiB resident)", r.Resident/mib)
	memory.Unit, memory.Ours, memory.Floor = "MiB", r.InUse/mib, crowdMemory
	p99.Name, p99.Unit, p99.Ours, p99.Floor = "2,000 agents: p99 of a report", "ms", 1e3*r.P99, 1e3*crowdP99.Seconds()
	back.Name, back.Unit, back.Ours, back.Floor = "2,000 agents: back at a new leader", "s", r.Back, crowdBack.Seconds()
	return []Row{memory, p99, back}, nil
}

// serveCrowd is the process of the server.
func serveCrowd(ctx context.Context) error {
	nursery := newNursery()
	first := scene{store: memory.New(memory.Options{}), cloud: drivertest.New(drivertest.Options{OnCreate: nursery.boot})}
	w, err := first.begin(ctx)
	if err != nil {
		return err
	}
	agents, err := nursery.enrol(ctx, w, "web", crowdAgents)
	if err != nil {
		return err
	}
	addr, stop, err := w.agentListenerAt("127.0.0.1:0")
	if err != nil {
		return err
	}
	crowd, err := startClients(ctx, serverCrowd, w.taskFor(addr, agents))
	if err != nil {
		return err
	}
	ids := make([]identity.ID, len(agents))
	for i, a := range agents {
		ids[i] = a.id
	}
	clear(agents)
	var r crowdResult
	r.P99 = w.watchReports(ids[:crowdWatched])
	r.InUse = inUse()
	if r.Resident, err = (&program{cmd: self()}).resident(); err != nil {
		return err
	}
	stop()
	if err := w.close(); err != nil {
		return err
	}
	r.Back, err = takeOverAt(ctx, scene{store: first.store, cloud: first.cloud, term: 2}, addr, ids)
	return errors.Join(err, json.NewEncoder(os.Stdout).Encode(r), crowd.end())
}

// self is this process.
func self() *exec.Cmd { return &exec.Cmd{Process: &os.Process{Pid: os.Getpid()}} }

// watchReports returns the 99th of a hundred times, in seconds, that reports take.
func (w *world) watchReports(ids []identity.ID) float64 {
	seen := map[identity.ID]int64{}
	var took []float64
	for until := time.Now().Add(crowdFor); time.Now().Before(until); time.Sleep(2 * time.Millisecond) {
		for _, id := range ids {
			h, _ := w.cache.Health(id)
			if last, ok := seen[id]; ok && h.Count > last {
				took = append(took, time.Since(time.Unix(0, h.Count)).Seconds())
			}
			seen[id] = h.Count
		}
	}
	return quantile(took, 0.99)
}

// takeOverAt has another leader serve at an address, and returns the seconds until
// all agents have reported there.
func takeOverAt(ctx context.Context, s scene, addr string, ids []identity.ID) (float64, error) {
	w, err := s.begin(ctx)
	if err != nil {
		return 0, err
	}
	_, stop, err := w.agentListenerAt(addr)
	if err != nil {
		return 0, errors.Join(err, w.close())
	}
	serving := time.Now()
	missing := ids
	err = eventually(ctx, "all agents", func() bool {
		for len(missing) > 0 {
			if h, _ := w.cache.Health(missing[0]); h.Count == 0 {
				return false
			}
			missing = missing[1:]
		}
		return true
	})
	took := time.Since(serving).Seconds()
	stop()
	return took, errors.Join(err, w.close())
}

// stay keeps an agent connected until ctx ends, as an agent does it: whenever its
// stream ends it looks for a leader again, after the pauses that agents make. The
// number of a report is the moment at which it was sent, in nanoseconds. The first
// connection is made before stay returns.
func (a idleAgent) stay(ctx context.Context, conn *grpc.ClientConn, id identity.ID) error {
	stream, err := connectAgent(ctx, conn, id)
	if err != nil {
		return err
	}
	go func() {
		for ctx.Err() == nil {
			a.reports(ctx, stream, id)
			absent := time.Now()
			for failures := 1; ctx.Err() == nil; failures++ {
				if link.Sleep(ctx, link.Reconnect(failures, time.Since(absent), rand.Float64())) != nil {
					return
				}
				if stream, err = connectAgent(ctx, conn, id); err == nil {
					break
				}
			}
		}
	}()
	return nil
}

// reports reports on a stream until it ends, first at once.
func (a idleAgent) reports(ctx context.Context, stream connectStream, id identity.ID) {
	ended := make(chan struct{})
	go func() {
		drain(stream)
		close(ended)
	}()
	msg := reportOf(id, a.Hash)
	next := time.Duration(0)
	for {
		select {
		case <-time.After(next):
			msg.GetReport().Count = time.Now().UnixNano()
			if stream.Send(msg) != nil {
				return
			}
			next = crowdReports + time.Duration(rand.Int64N(int64(crowdReports/10))) - crowdReports/20
		case <-ended:
			return
		case <-ctx.Done():
			return
		}
	}
}
