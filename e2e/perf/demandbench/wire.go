package demandbench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nstance.dev/e2e/perf/bench"
	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/demand/aggregate"
	"nstance.dev/protos/needs"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
	"nstance.dev/protos/rollup"
)

// generated is the time that messages carry.
var generated = time.UnixMilli(1_800_000_000_000)

// requests are those of so many Pods of so many kinds, in the mix of [shard].
func requests(pods, kinds int) (all []aggregate.Item) {
	luck := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // has to repeat
	var specs []*demandv1.CapacityRequestSpec
	for i := range kinds {
		specs = append(specs, request(i, kinds))
	}
	for i := range pods {
		kind := luck.IntN(kinds)
		if luck.IntN(100) < 70 { // most are tiny
			kind = luck.IntN(kinds * 7 / 10)
		}
		all = append(all, aggregate.Item{ID: fmt.Sprint("pod-", i), Spec: specs[kind]})
	}
	return all
}

// request is that of a Pod of the nth kind.
func request(n, kinds int) *demandv1.CapacityRequestSpec {
	sizes := [][2]string{{"300m", "384Mi"}, {"350m", "448Mi"}, {"400m", "500Mi"}}
	switch {
	case n*100 >= kinds*94:
		sizes = [][2]string{{"10", "80Gi"}}
	case n*100 >= kinds*88:
		sizes = [][2]string{{"2", "28Gi"}}
	case n*100 >= kinds*82:
		sizes = [][2]string{{"4", "8Gi"}, {"8", "16Gi"}}
	case n*100 >= kinds*70:
		sizes = [][2]string{{"2", "4Gi"}, {"3", "6Gi"}, {"4", "8Gi"}}
	}
	size := sizes[n%len(sizes)]
	s := &demandv1.CapacityRequestSpec{
		Requirements: []demandv1.Requirement{
			{Key: "kubernetes.io/arch", Operator: "In", Values: []string{"amd64"}},
			{Key: "team", Operator: "In", Values: []string{fmt.Sprint(n)}},
		},
		Resources: demandv1.Resources{Requests: corev1.ResourceList{
			"cpu": resource.MustParse(size[0]), "memory": resource.MustParse(size[1]), "pods": resource.MustParse("1"),
		}},
	}
	if n%5 < 2 {
		s.TopologySpread = []demandv1.TopologySpread{{TopologyKey: zoneLabel, MaxSkew: 1, WhenUnsatisfiable: "DoNotSchedule"}}
	}
	if n%7 == 3 {
		s.Priority = 1_000_000
	}
	switch size[0] {
	case "10":
		s.Resources.Requests[gpuName] = resource.MustParse("1")
		s.Tolerations = []demandv1.Toleration{{Key: gpuName, Operator: "Exists", Effect: "NoSchedule"}}
	case "2":
		if size[1] == "28Gi" {
			s.CoLocation = &demandv1.CoLocation{TopologyKey: rackLabel, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint(n)}}}
		}
	}
	return s
}

// rowsOf are what so many Pods of so many kinds add up to.
func rowsOf(pods, kinds int) ([]*needs.Row, error) {
	rows, skipped := aggregate.Build(aggregate.Options{}, slices.Values(requests(pods, kinds)))
	if skipped > 0 || len(rows) == 0 {
		return nil, fmt.Errorf("%d rows, and %d requests are not valid", len(rows), skipped)
	}
	return rows, nil
}

// G11: what a cluster of 100,000 Pods of 60 kinds sends, and what it sends when nothing has changed.
//
// Goal: 32 KB, and 64 bytes.
func measureSize(context.Context, bench.Env) ([]bench.Row, error) {
	rows, err := rowsOf(100_000, 60)
	if err != nil {
		return nil, err
	}
	w := rollup.NewWriter("bench")
	var sizes [2]float64
	for i := range sizes {
		parts, err := w.Write(generated, rows, nil)
		if err != nil {
			return nil, err
		}
		for _, part := range parts {
			sizes[i] += float64(proto.Size(part))
		}
	}
	return []bench.Row{
		amount(fmt.Sprintf("roll-up of 100,000 Pods, %d rows", len(rows)), "KB", sizes[0]/1000, 32),
		amount("roll-up that equals the one before", "B", sizes[1], 64),
	}, nil
}

// G20: roll-ups of 20 rows that one core takes in: from the bytes of the message until the rows have
// been checked and have their keys.
//
// Each differs from the one before, as one that says the same is a reference. Goal: 5,000 in a second.
func measureIngest(ctx context.Context, env bench.Env) ([]bench.Row, error) {
	const ups = 2000
	messages, err := different(ups)
	if err != nil {
		return nil, err
	}
	c, least := calibrate(), time.Hour
	for range env.Rounds {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		from := time.Now()
		if err := ingest(messages); err != nil {
			return nil, err
		}
		least = min(least, time.Since(from))
		c = c.or(calibrate())
	}
	return []bench.Row{c.rate("roll-ups of 20 rows taken in", "1/s", ups/least.Seconds(), 5000)}, nil
}

// different are the bytes of so many roll-ups of 20 rows, of one session.
func different(ups int) (all [][]byte, err error) {
	rows, err := rowsOf(2000, 20)
	if err != nil {
		return nil, err
	}
	if len(rows) > 20 {
		rows = rows[:20]
	}
	w := rollup.NewWriter("bench")
	for i := range ups {
		changed := *rows[i%len(rows)]
		changed.Aggregate = slices.Clone(changed.Aggregate)
		changed.Aggregate[0].Amount += int64(i + 1)
		rows = slices.Clone(rows)
		rows[i%len(rows)] = &changed
		parts, err := w.Write(generated, rows, nil)
		if err != nil {
			return nil, err
		}
		if len(parts) != 1 || parts[0].GetSameAsSequence() != 0 {
			return nil, fmt.Errorf("roll-up %d is no whole one in one part", i)
		}
		message, err := proto.Marshal(parts[0])
		if err != nil {
			return nil, err
		}
		all = append(all, message)
	}
	return all, nil
}

// ingest takes the messages of a session in.
func ingest(messages [][]byte) error {
	joiner := rollup.NewJoiner("bench")
	keys := map[needs.Key]bool{}
	for i, message := range messages {
		var part demandpb.ClusterCapacityNeeds
		if err := proto.Unmarshal(message, &part); err != nil {
			return err
		}
		whole, err := joiner.Add(&part)
		if err != nil {
			return err
		}
		if whole == nil {
			return fmt.Errorf("roll-up %d is not complete", i)
		}
		rows, _, err := rollup.Decode("bench", whole)
		if err != nil {
			return err
		}
		clear(keys)
		for _, row := range rows {
			keys[row.Key("bench")] = true
		}
		if len(keys) != len(rows) || len(rows) < 10 {
			return fmt.Errorf("roll-up %d has %d rows and %d keys", i, len(rows), len(keys))
		}
	}
	return nil
}
