package chart_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

const (
	autoscalerExample = "../../../operator/examples/autoscaler.yaml"
	autoscalerPage    = "../../../docs/kubernetes/autoscaling.md"
)

// exampleOf reads the one object of a kind from the autoscaler's example.
func exampleOf[T any](t *testing.T, kind string) T {
	t.Helper()
	text, err := os.ReadFile(autoscalerExample)
	if err != nil {
		t.Fatal(err)
	}
	var object T
	found := 0
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		if !strings.Contains("\n"+document, "\nkind: "+kind+"\n") {
			continue
		}
		found++
		if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
	}
	if found != 1 {
		t.Fatalf("%s has %d objects of kind %s", autoscalerExample, found, kind)
	}
	return object
}

// The image of the autoscaler has no entrypoint, so args alone would be run as the program.
func TestO17_TheAutoscalerOfTheExampleStarts(t *testing.T) {
	pod := exampleOf[appsv1.Deployment](t, "Deployment").Spec.Template.Spec
	if len(pod.Containers) != 1 {
		t.Fatalf("the Deployment has %d containers", len(pod.Containers))
	}
	c := pod.Containers[0]
	if diff := cmp.Diff([]string{"/cluster-autoscaler"}, c.Command); diff != "" {
		t.Error("command:", diff)
	}
	if p := c.LivenessProbe; p == nil || p.HTTPGet == nil || p.HTTPGet.Path != "/health-check" || p.HTTPGet.Port.IntValue() != 8085 {
		t.Errorf("the liveness probe is %v, want /health-check of port 8085", p)
	}
	if regexp.MustCompile(`:v1\.36\.[01]$`).MatchString(c.Image) {
		t.Errorf("%s takes back a whole scale-up when one machine does not join", c.Image)
	}
}

// Without each of these labels an empty pool is never similar to one that has Nodes.
func TestO17_TheAutoscalerOfTheExampleBalances(t *testing.T) {
	args := exampleOf[appsv1.Deployment](t, "Deployment").Spec.Template.Spec.Containers[0].Args
	for _, flag := range []string{
		"--balance-similar-node-groups", "--kube-client-qps=100", "--kube-client-burst=200",
		"--balancing-ignore-label=nstance.dev/instance-id", "--balancing-ignore-label=nstance.dev/shard",
		"--balancing-ignore-label=nstance.dev/group", "--balancing-ignore-label=beta.kubernetes.io/arch",
		"--balancing-ignore-label=beta.kubernetes.io/os", "--balancing-ignore-label=beta.kubernetes.io/instance-type",
	} {
		if !slices.Contains(args, flag) {
			t.Errorf("the example lacks %s", flag)
		}
	}
	page, err := os.ReadFile(autoscalerPage)
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`(?m)^(--[a-z]\S+)$`).FindAllStringSubmatch(string(page), -1)
	var onPage []string
	for _, m := range shown {
		onPage = append(onPage, m[1])
	}
	if diff := cmp.Diff(args, onPage); diff != "" {
		t.Error("the flags of the example and those of its page:", diff)
	}
}
