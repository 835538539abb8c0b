package demand_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"nstance.dev/e2e/env/box"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

var flood = flag.Int("flood", 16, "how many megabytes of hostile frames are sent")

// growth is by how much the server's memory may grow for a moment: what one session may keep of a roll-up that
// is not complete, decoded, and as much again before it is collected.
const growth = 256 << 20

// An operator that has gone bad, or whose key was stolen, sends what no operator sends. The server goes on, its
// memory stays bounded, and what the cluster needs is what its own operator says.
func TestS22_HostileFrames(t *testing.T) {
	w := start(t, "10m")
	all, machines := list(4, 2)
	w.operator.Need(all...)
	w.settled("every Pod runs", machines)
	before := w.operator.Seen()
	peak := w.peak()

	random := rand.New(rand.NewPCG(1, uint64(*flood)))
	sent, frames, ended := 0, map[string]int{}, map[string]int{}
	for i := 0; sent < *flood<<20 || i < len(attacks); i++ { // each once, and then at random
		if i >= len(attacks) {
			i = len(attacks) + random.IntN(len(attacks))
		}
		n, code := w.attack(random, attacks[i%len(attacks)].fill)
		kind := attacks[i%len(attacks)].name
		sent += n
		frames[kind]++
		ended[code]++
		if w.server.Ended() {
			t.Fatalf("the server has ended after %d MB, after %s", sent>>20, kind)
		}
	}
	w.settled("nothing has changed", machines)
	after := w.operator.Seen()
	t.Logf("%d MB in %v; sessions ended: %v; memory %d MB before, at most %d MB", sent>>20, frames, ended, peak>>20, w.peak()>>20)
	if !maps.Equal(before.Nodes, after.Nodes) {
		t.Errorf("Nodes %v, before %v", after.Nodes, before.Nodes)
	}
	if n := after.Frames["shard: reclaim_instruction"]; n > 0 {
		t.Errorf("%d machines were asked back", n)
	}
	if grown := w.peak() - peak; grown > growth {
		t.Errorf("the server's memory has grown by %d MB", grown>>20)
	}
	for _, wrong := range after.Wrong {
		t.Error(wrong)
	}
}

// peak is the most memory that the server has had, in bytes.
func (w *world) peak() int {
	w.t.Helper()
	status := read(w.t, fmt.Sprintf("/proc/%d/status", w.server.PID))
	_, rest, _ := strings.Cut(status, "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		w.t.Fatal(err)
	}
	return kib << 10
}

// bytesCodec sends bytes as they are.
type bytesCodec struct{}

func (bytesCodec) Marshal(v any) ([]byte, error) { return v.([]byte), nil }
func (bytesCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = data
	return nil
}
func (bytesCodec) Name() string { return "proto" }

// attack has one session. It returns how many bytes it has sent, and how the session ended.
func (w *world) attack(random *rand.Rand, fill func(*attacker)) (sent int, code string) {
	w.t.Helper()
	conn, err := w.dial()
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(w.t.Context(), box.CallTimeout)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		demandpb.ShardService_Session_FullMethodName, grpc.ForceCodec(bytesCodec{}), grpc.MaxCallSendMsgSize(64<<20))
	if err != nil {
		return 0, short(err)
	}
	done := make(chan error, 1)
	go func() {
		for {
			var m []byte
			if err := stream.RecvMsg(&m); err != nil {
				done <- err
				return
			}
		}
	}()
	a := &attacker{random: random, hello: true}
	fill(a)
	if a.hello {
		a.frames = append([][]byte{hello("default", box.Cluster)}, a.frames...)
	}
	for _, frame := range a.frames {
		if stream.SendMsg(frame) != nil {
			break
		}
		sent += len(frame)
	}
	_ = stream.CloseSend() // its end is waited for
	err = <-done
	return sent + 1, short(err)
}

// short is the code of an error.
func short(err error) string {
	_, rest, found := strings.Cut(err.Error(), "code = ")
	if !found {
		return err.Error()
	}
	code, _, _ := strings.Cut(rest, " ")
	return code
}

// attacker makes the frames of one attack.
type attacker struct {
	random *rand.Rand
	hello  bool // begins with a good one
	frames [][]byte
}

func (a *attacker) send(m *demandpb.OperatorMessage) {
	data, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	a.frames = append(a.frames, data)
}

func (a *attacker) rollup(m *demandpb.ClusterCapacityNeeds) {
	a.send(&demandpb.OperatorMessage{Kind: &demandpb.OperatorMessage_Rollup{Rollup: m}})
}

// garbage is text of some length.
func (a *attacker) garbage(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(' ' + a.random.IntN(94))
	}
	return string(b)
}

func hello(tenant, cluster string) []byte {
	data, _ := proto.Marshal(&demandpb.OperatorMessage{Kind: &demandpb.OperatorMessage_Hello{Hello: &demandpb.Hello{
		ClusterId: cluster, Tenant: tenant, ProtocolVersion: "v1alpha1", OperatorInstance: "hostile", Capabilities: []string{"node-reports"},
	}}}) // never fails
	return data
}

// row is one that would be good.
func row(name string, cpu int64) *demandpb.CapacityNeed {
	n := &demandpb.CapacityNeed{
		AggregateResources: []*demandpb.ResourceAmount{{Name: "cpu", Amount: cpu}}, MinUnit: []*demandpb.ResourceAmount{{Name: "cpu", Amount: min(cpu, 100)}},
		InterruptionPenaltyBucket: demandpb.PenaltyBucket_PENALTY_BUCKET_ZERO, ReclamationPenaltyBucket: demandpb.PenaltyBucket_PENALTY_BUCKET_ZERO,
	}
	if name != "" {
		n.Tolerations = []*demandpb.Toleration{{Key: name, Exists: true}}
	}
	return n
}

// rows are many that would be good, about 3 MB.
func rows(a *attacker) (all []*demandpb.CapacityNeed) {
	for i := range 20_000 {
		all = append(all, row(fmt.Sprintf("%d-%s", i, a.garbage(60)), 100))
	}
	return all
}

// attacks are what is tried. None of them leaves a roll-up in force.
var attacks = []struct {
	name string
	fill func(*attacker)
}{
	{"another cluster's roll-up", func(a *attacker) {
		for i := range 20 {
			a.rollup(&demandpb.ClusterCapacityNeeds{ClusterId: "another-cluster", Sequence: uint64(i + 1), Needs: []*demandpb.CapacityNeed{row("", 1)}})
		}
	}},
	{"parts that never end", func(a *attacker) {
		needs := rows(a)
		for i := range 8 {
			a.rollup(&demandpb.ClusterCapacityNeeds{ClusterId: box.Cluster, Sequence: 1, Part: uint32(i + 1), Parts: 1000, Needs: needs})
		}
	}},
	{"parts in disorder", func(a *attacker) {
		for i, part := range []uint32{3, 1, 3, 2, 2, 1, 1, 4} {
			a.rollup(&demandpb.ClusterCapacityNeeds{ClusterId: box.Cluster, Sequence: uint64(i/3 + 1), Part: part, Parts: 3 + uint32(i%2), Needs: []*demandpb.CapacityNeed{row("x", 1)}})
		}
	}},
	{"a part that is too large", func(a *attacker) {
		a.rollup(&demandpb.ClusterCapacityNeeds{ClusterId: box.Cluster, Sequence: 1, Part: 1, Parts: 2, Needs: append(rows(a), rows(a)...)})
	}},
	{"rows that break a rule", func(a *attacker) {
		bad := []func(*demandpb.CapacityNeed){
			func(n *demandpb.CapacityNeed) { n.InterruptionPenaltyBucket = 99 },
			func(n *demandpb.CapacityNeed) { n.AggregateResources[0].Amount = -1 },
			func(n *demandpb.CapacityNeed) { n.AggregateResources[0].Amount = 0 },
			func(n *demandpb.CapacityNeed) { n.MinUnit[0].Amount = 1 << 62 },
			func(n *demandpb.CapacityNeed) { n.MinUnit[0].Name = "memory" },
			func(n *demandpb.CapacityNeed) { n.Group = "gang" },
			func(n *demandpb.CapacityNeed) {
				n.Requirements = []*demandpb.NodeSelectorRequirement{{Key: "a", Operator: 77}}
			},
			func(n *demandpb.CapacityNeed) {
				n.Requirements = []*demandpb.NodeSelectorRequirement{{Operator: demandpb.Operator_OPERATOR_EXISTS}}
			},
			func(n *demandpb.CapacityNeed) {
				n.Spread = []*demandpb.TopologySpread{{TopologyKey: "zone", MaxSkew: -1}}
			},
			func(n *demandpb.CapacityNeed) { n.Tolerations[0].Effect = 9 },
			func(n *demandpb.CapacityNeed) { n.Alternatives = []*demandpb.Alternative{{}} },
		}
		for i, spoil := range bad {
			n := row("x", 100)
			spoil(n)
			a.rollup(&demandpb.ClusterCapacityNeeds{ClusterId: box.Cluster, Sequence: uint64(i + 1), Needs: []*demandpb.CapacityNeed{row("good", 100), n}})
		}
	}},
	{"the same row twice", func(a *attacker) {
		a.rollup(&demandpb.ClusterCapacityNeeds{ClusterId: box.Cluster, Sequence: 1, Needs: []*demandpb.CapacityNeed{row("x", 100), row("x", 100)}})
	}},
	{"a reference to nothing", func(a *attacker) {
		a.rollup(&demandpb.ClusterCapacityNeeds{ClusterId: box.Cluster, Sequence: 9, SameAsSequence: 8})
	}},
	{"blobs that nobody asked for", func(a *attacker) {
		for i := range 4 {
			a.send(&demandpb.OperatorMessage{Kind: &demandpb.OperatorMessage_BootstrapResponse{BootstrapResponse: &demandpb.BootstrapBlobResponse{
				RequestId: strconv.Itoa(i), UserData: []byte("#!/bin/sh\n" + a.garbage(1<<20-20)),
			}}})
		}
	}},
	{"reports about machines of nobody", func(a *attacker) {
		var all []*demandpb.NodeReport
		for range 200 {
			all = append(all, &demandpb.NodeReport{MachineId: a.garbage(200), NodeName: a.garbage(200), Ready: true, Drained: true, InstructionId: a.garbage(200)})
		}
		for range 8 {
			a.send(&demandpb.OperatorMessage{Kind: &demandpb.OperatorMessage_NodeReports{NodeReports: &demandpb.NodeReportBatch{Reports: all}}})
		}
		a.send(&demandpb.OperatorMessage{Kind: &demandpb.OperatorMessage_NodeReports{NodeReports: &demandpb.NodeReportBatch{Reports: append(all, all...)}}})
	}},
	{"answers to instructions of nobody", func(a *attacker) {
		for range 20 {
			a.send(&demandpb.OperatorMessage{Kind: &demandpb.OperatorMessage_ReclaimAck{ReclaimAck: &demandpb.ReclaimAck{
				InstructionId: "rcl-" + a.garbage(200), NodesStarted: 1 << 30, NodesRefused: []*demandpb.Refusal{{MachineId: a.garbage(100), RetryAfterSeconds: 1 << 30}},
			}}})
		}
	}},
	{"hello twice", func(a *attacker) { a.frames = append(a.frames, hello("default", box.Cluster)) }},
	{"no hello", func(a *attacker) {
		a.hello = false
		a.rollup(&demandpb.ClusterCapacityNeeds{ClusterId: box.Cluster, Sequence: 1})
	}},
	{"another tenant's hello", func(a *attacker) { a.hello, a.frames = false, [][]byte{hello("other", box.Cluster)} }},
	{"another cluster's hello", func(a *attacker) { a.hello, a.frames = false, [][]byte{hello("default", "another-cluster")} }},
	{"an empty frame", func(a *attacker) { a.frames = [][]byte{{}} }},
	{"noise", func(a *attacker) { a.frames = [][]byte{[]byte(a.garbage(1 << 20))} }},
	{"a frame that was damaged", func(a *attacker) {
		for range 50 { // of another cluster, so that no damage makes a good one of it
			a.rollup(&demandpb.ClusterCapacityNeeds{ClusterId: "another-cluster", Sequence: 1, Needs: []*demandpb.CapacityNeed{row(a.garbage(40), 1000), row(a.garbage(40), 1000)}})
			last := a.frames[len(a.frames)-1]
			for range 1 + a.random.IntN(8) {
				last[20+a.random.IntN(len(last)-20)] = byte(a.random.IntN(256))
			}
		}
	}},
	{"a frame beyond all bounds", func(a *attacker) { a.frames = [][]byte{make([]byte, 16<<20)} }},
}
