package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// P3: memory of a server for each agent that is connected and idle.
//
// Ours: what the objects on the heap and the stacks in use have grown by, after
// collecting garbage, from a shard without instances to one in which so many agents
// are connected, have said hello and have reported once. That is all that the
// server keeps of an instance: its record, its row, its signs of life, its connection
// and its stream. What the stand-ins for store and cloud keep of it is taken off.
//
// Peers: a listener that has shaken hands with as many and waits for a byte of
// each; and a gRPC server with default settings, on which each has one stream open
// and has sent one message.
//
// Goal: 2.4 times the bare connection, 0.60 times the default gRPC server.
//
// Each server runs in a process of its own and its clients in a second one.
const (
	idleAgents  = 500
	firstAgents = 10
)

// The servers of the measure, by the name that their process is told.
const (
	serverOurs = "ours"
	serverGRPC = "grpc"
	serverTLS  = "tls"
)

func measureMemory(ctx context.Context, env Env) ([]Row, error) {
	of := func(kind string) contender {
		return func(ctx context.Context) (float64, error) { return memoryOf(ctx, kind) }
	}
	least, err := interleave(ctx, env.Rounds, of(serverTLS), of(serverGRPC), of(serverOurs))
	if err != nil {
		return nil, err
	}
	const kib = 1 << 10
	row := Row{Unit: "KiB", Ours: least[2] / kib}
	bare, grpc := row, row
	bare.Name, bare.Floor, bare.Against, bare.Goal = "memory per idle agent", least[0]/kib, "bare TLS connection", AtMost(2.4)
	grpc.Name, grpc.Floor, grpc.Against, grpc.Goal = "memory per idle agent", least[1]/kib, "default gRPC server, one stream", AtMost(0.60)
	return []Row{bare, grpc}, nil
}

// childEnv tells a process of this program that it is one of the measure's, and
// which.
const childEnv = "NSTANCE_BENCH_CHILD"

// Child runs the part of a measure that needs a process of its own, if this
// process was started for one; false means that it was not. The program calls it
// before it does anything else.
func Child(ctx context.Context) (bool, error) {
	role, kind, ok := strings.Cut(os.Getenv(childEnv), ":")
	switch {
	case !ok:
		return false, nil
	case role == "server" && kind == serverCrowd:
		return true, serveCrowd(ctx)
	case role == "server" && (kind == serverPush || kind == serverBroadcast):
		return true, servePush(ctx, kind)
	case role == "server":
		return true, serveIdle(ctx, kind)
	default:
		return true, connectIdle(ctx, kind)
	}
}

// child is a process of this program in a role of its own.
func child(ctx context.Context, role, kind string) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), childEnv+"="+role+":"+kind)
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// memoryOf returns the bytes of each connection of one kind of server.
func memoryOf(ctx context.Context, kind string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cmd, err := child(ctx, "server", kind)
	if err != nil {
		return 0, err
	}
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("server %s: %w", kind, err)
	}
	var bytes float64
	if err := json.Unmarshal(out, &bytes); err != nil {
		return 0, fmt.Errorf("server %s says %q: %w", kind, out, err)
	}
	return bytes / idleAgents, nil
}

// inUse is the memory of all objects and stacks once nothing is left to collect.
// What lies idle between the objects is not counted: it is what garbage of the
// setting of the scene has left there.
func inUse() float64 {
	for range 3 { // stacks shrink by half in each
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// settling is how long a process is left alone before its memory is read.
const settling = 1500 * time.Millisecond
