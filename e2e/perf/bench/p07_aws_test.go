package bench

import (
	"net/http"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/aws"
	"nstance.dev/providers/aws/awsfake"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest/wire"
)

// awsConfiguration is the usual one, of a shard on AWS.
const awsConfiguration = `{
	"server": {
		"cluster_id": "bench", "shard": "s1",
		"provider": {"kind": "aws", "region": "us-east-1", "zone": "us-east-1a"},
		"secrets": {"provider": "object-storage"},
		"subnet_pools": {"p": ["subnet-0a1100000000000a"]},
		"health_check_interval": "10m", "request_timeout": "30s", "drain_timeout": "0s",
		"garbage_collection": {"interval": "1h", "registration_timeout": "2h"},
	},
	"templates": {
		"plain": {
			"kind": "vmx", "arch": "arm64", "instance_type": "t4g.small", "subnet_pool": "p",
			"args": {"ImageId": "ami-0a1100000000000003"},
			"userdata": {"content": "{{ .Nonce }}"},
		},
	},
	"groups": {"default": {}},
}`

// awsWorld is a shard on a fake of AWS that throttles as AWS does, with the SDK and
// the driver between the two. It lives in a bubble.
type awsWorld struct {
	*world
	*awsfake.Cloud
}

func newAWSWorld(t *testing.T, faults wire.Faults) awsWorld {
	t.Helper()
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": awsfake.AccessKey, "AWS_SECRET_ACCESS_KEY": awsfake.SecretKey, "AWS_CA_BUNDLE": "",
	} {
		t.Setenv(name, value)
	}
	cloud := awsfake.New(awsfake.Options{Enforce: true, Boot: 40 * time.Second})
	d, err := aws.New(t.Context(), aws.Options{
		Region: "us-east-1", Zone: "us-east-1a", HTTPClient: &http.Client{Transport: wire.RoundTripper(cloud)},
	})
	if err != nil {
		t.Fatal(err)
	}
	w, err := scene{dir: t.TempDir(), driver: d, cfg: awsConfiguration}.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
	cloud.Gate().SetFaults(faults)
	return awsWorld{w, cloud}
}

// running counts the machines of a group that run.
func (w awsWorld) running(group string) int {
	n := 0
	for _, m := range w.Machines() {
		if m.State == "running" && m.Tags[identity.TagGroup] == group {
			n++
		}
	}
	return n
}

// await waits until so many machines of a group run, at which it looks at a pace,
// and returns how long it took.
func (w awsWorld) await(t *testing.T, group string, size int, pace time.Duration) time.Duration {
	t.Helper()
	began := time.Now()
	for w.running(group) < size {
		if time.Since(began) > time.Hour {
			t.Fatalf("%d of %d machines of %s after an hour", w.running(group), size, group)
		}
		time.Sleep(pace)
	}
	return time.Since(began)
}

func (w awsWorld) grow(t *testing.T, group string, size int) {
	t.Helper()
	if err := w.scale(t.Context(), group, size); err != nil {
		t.Fatal(err)
	}
}

// TestP7_ScaleUpKeepsTheBucketsOfAWS counts what arrives at the API, whatever the
// shard thinks that it sends. It is also run by the measure.
func TestP7_ScaleUpKeepsTheBucketsOfAWS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newAWSWorld(t, nil)
		began := time.Now()
		w.grow(t, "web", *creates)
		w.await(t, "web", *creates, 10*time.Second)
		var at []time.Duration
		for _, c := range w.Gate().Calls() {
			if c.Throttled {
				t.Errorf("S21: call %d, %s, was throttled", c.N, c.Op)
			}
			if c.Op == "RunInstances" {
				at = append(at, c.At.Sub(began))
			}
		}
		if len(at) != *creates {
			t.Fatalf("%d creates for %d machines", len(at), *creates)
		}
		if n := early(ec2Buckets, at); n > 0 {
			t.Errorf("S21: %d calls came before the buckets had room", n)
		}
		ours, floor := pace{calls: *creates, took: slices.Max(at)}.rates(ec2Buckets)
		if ours < 0.95*floor {
			t.Errorf("%.3f calls a second, the buckets admit %.3f", ours, floor)
		}
		t.Attr(fakeClockResult, strconv.FormatFloat(slices.Max(at).Seconds(), 'f', 3, 64))
	})
}

// growth is how a group that is scaled up came to its machines.
type growth struct {
	sent    time.Duration // until the last of its creates had arrived
	runs    time.Duration // until all its machines ran
	refused int           // of its creates
}

// grown measures a group that began to grow at a time and runs now.
func (w awsWorld) grown(group string, began time.Time) growth {
	g, own := growth{runs: time.Since(began)}, map[string]bool{}
	for _, m := range w.Machines() {
		if m.Tags[identity.TagGroup] == group {
			own[m.Tags[identity.TagInstanceID]] = true
		}
	}
	g.refused = -len(own)
	for _, c := range w.Gate().Calls() {
		if c.Op == "RunInstances" && own[c.Key] {
			g.sent = c.At.Sub(began)
			g.refused++
		}
	}
	return g
}

// TestF24_L7_RandomThrottlingByAWS: while a large group is scaled up, AWS refuses a
// tenth of the creates. The group reaches its size all the same. Another one, which is
// scaled up in the middle, has its machines at most a fifth later than it would have had
// them without; and if none of its own creates is refused, they are sent at most a fifth
// later, too.
func TestF24_L7_RandomThrottlingByAWS(t *testing.T) {
	const large, small = 150, 5
	story := func(t *testing.T, faults wire.Faults) (g growth) {
		synctest.Test(t, func(t *testing.T) {
			w := newAWSWorld(t, faults)
			w.grow(t, "large", large)
			time.Sleep(45 * time.Second)
			began := time.Now()
			w.grow(t, "small", small)
			w.await(t, "small", small, 250*time.Millisecond)
			g = w.grown("small", began)
			w.await(t, "large", large, 10*time.Second)
			time.Sleep(10 * time.Minute) // whatever was doubtful has been settled
			if made := len(w.Machines()); made != large+small {
				t.Errorf("S5: %d machines, want %d", made, large+small)
			}
		})
		return g
	}
	later := func(took, calm time.Duration) bool { return took > calm+calm/5 }
	calm, spared := story(t, nil), 0
	for seed := range uint64(3) {
		refusals := wire.Only(func(c wire.Call) bool { return c.Op == "RunInstances" }, wire.Random(seed, 0.1, wire.Fault{Kind: driver.Throttled}))
		g := story(t, refusals)
		t.Logf("seed %d: the small group %+v, without throttling %+v", seed, g, calm)
		if later(g.runs, calm.runs) {
			t.Errorf("seed %d: its machines ran after %v, without throttling %v", seed, g.runs, calm.runs)
		}
		if g.refused > 0 {
			continue
		}
		spared++
		if later(g.sent, calm.sent) {
			t.Errorf("seed %d: its creates were sent after %v, without throttling %v", seed, g.sent, calm.sent)
		}
	}
	if spared == 0 {
		t.Error("every seed refuses creates of the small group: this shows little")
	}
}
