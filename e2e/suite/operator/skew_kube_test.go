//go:build kube

package operator_test

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"nstance.dev/e2e/env/box"
	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/env/shards"
	"nstance.dev/operator/crds"
)

// earlier is an earlier release, of which one half runs beside the other half of this tree. Its directories
// have its programs, and its source in src.
var earlier struct{ operator, servers string }

func init() {
	flag.StringVar(&earlier.operator, "operator", "", "directory of an earlier release, whose operator, chart and kinds run here")
	flag.StringVar(&earlier.servers, "servers", "", "directory of an earlier release, whose servers and agents run here")
}

// ofBoth are the tests of what both releases promise, beside those that have the tag operator too. They run with an
// earlier release, if -run does not say otherwise.
var ofBoth = []func(*testing.T){
	TestO5_APartIsDeletedWithPermissionOnly,
	TestO6_ScaledUpAndAMachineReplaced,
	TestO6_TheNamedMachineGoesAndNoOther,
	TestO7_AShardThatIsAwayCostsNoNode,
	TestO9_SilentNodesAreReplacedOneByOne,
	TestO10_ABudgetIsWaitedForByTheNextLeaderToo,
	TestO11_AnEndedInstanceLeavesNothing,
	TestO16_APausedClusterWaits,
}

// chooseTests leaves out what an earlier release does not promise.
func chooseTests() error {
	if run := flag.Lookup("test.run"); earlier.operator == "" && earlier.servers == "" || run.Value.String() != "" {
		return nil
	}
	var names []string
	for _, test := range ofBoth {
		name := runtime.FuncForPC(reflect.ValueOf(test).Pointer()).Name()
		names = append(names, name[strings.LastIndex(name, ".")+1:])
	}
	return flag.Set("test.run", "^("+strings.Join(names, "|")+")$")
}

// chartDir is the chart that people install.
func chartDir() string {
	const path = "operator/charts/nstance-operator"
	if earlier.operator != "" {
		return filepath.Join(earlier.operator, "src", path)
	}
	return filepath.Join("../../..", path)
}

// known leaves out of the chart's values what an earlier one does not have.
func known(values map[string]any) {
	if earlier.operator != "" {
		delete(values, "hosts")
	}
}

// operatorBinary is the operator's program.
func operatorBinary(t testing.TB) string {
	t.Helper()
	if earlier.operator != "" {
		return filepath.Join(earlier.operator, "nstance-operator")
	}
	return box.Binary(t, "nstance-operator")
}

// serversOf are the options of the servers with those of the release that they are of.
func serversOf(options []shards.Option) []shards.Option {
	if earlier.servers != "" {
		options = append(options, shards.Earlier(earlier.servers))
	}
	return options
}

// installDefinitions has the cluster serve the kinds of the operator that runs.
func installDefinitions(t testing.TB, c *kube.Cluster) {
	t.Helper()
	if earlier.operator == "" {
		installKinds(t, c, crds.All)
		return
	}
	files, err := filepath.Glob(filepath.Join(chartDir(), "files/crds/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the earlier release has no kinds in %s: %v", chartDir(), err)
	}
	for _, file := range files {
		manifest, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		apply(t, c, objects(t, string(manifest))...)
	}
}
