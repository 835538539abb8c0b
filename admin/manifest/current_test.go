package manifest_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"nstance.dev/admin/manifest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func status() *nstancev1.GroupStatus {
	return &nstancev1.GroupStatus{
		Key: "web", Template: "worker", Size: 3, InstanceType: "t4g.medium", SubnetPool: "a", LoadBalancers: []string{"public"},
		Vars: map[string]string{"region": "eu", "on": "true"}, Dynamic: &nstancev1.GroupConfig{Args: &nstancev1.StringMap{Values: map[string]string{"disk": `{"size":20}`}}},
	}
}

// parsed is what a file describes, which must be one group.
func parsed(t *testing.T, text string) *nstancev1.UpsertGroupRequest {
	t.Helper()
	groups, err := manifest.Parse("f", []byte(text))
	if err != nil || len(groups) != 1 {
		t.Fatalf("%v, %v in\n%s", groups, err, text)
	}
	return groups[0]
}

func TestWhatIsEncodedIsParsed(t *testing.T) {
	for name, g := range map[string]*nstancev1.GroupStatus{
		"much":    status(),
		"little":  {Key: "web", Template: "worker"},
		"demand":  {Key: "web", Template: "worker", Mode: "demand", Demand: &nstancev1.DemandSettings{Max: proto.Int32(3)}},
		"no size": {Key: "web", Template: "worker", Size: 0},
	} {
		want := manifest.Of(g)
		text, err := manifest.Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		got := parsed(t, string(text))
		if !proto.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		if changes, err := manifest.Changes(want, got); changes != nil || err != nil {
			t.Errorf("%s: nothing has changed, and changes are %v, %v", name, changes, err)
		}
	}
}

func TestChangesHaveWhatDiffersAlone(t *testing.T) {
	whole, err := manifest.Encode(manifest.Of(status()))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ from, to, want string }{
		"a size":         {"size: 3", "size: 4", "key: web\nconfig: {size: 4}"},
		"a variable":     {"region: eu", "region: us", `{"key": "web", "config": {"vars": {"region": "us", "on": "true"}}}`},
		"a cleared type": {"  instance_type: t4g.medium\n", "", "key: web\nconfig: {clear: [instance_type]}"},
		"no balancers":   {"  load_balancers:\n  - public\n", "", "key: web\nconfig: {load_balancers: []}"},
	} {
		edited := strings.Replace(string(whole), test.from, test.to, 1)
		if edited == string(whole) {
			t.Fatalf("%s: %q is not in\n%s", name, test.from, whole)
		}
		got, err := manifest.Changes(manifest.Of(status()), parsed(t, edited))
		if err != nil || !proto.Equal(got, parsed(t, test.want)) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		merged := manifest.Merge(manifest.Of(status()), got)
		if again, err := manifest.Changes(merged, parsed(t, edited)); again.GetConfig().GetSize() != 0 || err != nil {
			t.Errorf("%s: merged it still differs: %v, %v", name, again, err)
		}
	}
	for _, test := range [][3]string{{"key: web", "key: x", "a group keeps its key"}, {"  size: 3\n", "", "config.size: it cannot be removed"}} {
		edited := strings.Replace(string(whole), test[0], test[1], 1)
		if _, err := manifest.Changes(manifest.Of(status()), parsed(t, edited)); err == nil || !strings.Contains(err.Error(), test[2]) {
			t.Errorf("%v: %v", test, err)
		}
	}
}
