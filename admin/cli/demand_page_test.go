package cli_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What the page about the cost rule prints is what the commands say of the files beside it, and what the
// rule comes to if it is computed once more, in other arithmetic.
func TestPageOfTheCostRule(t *testing.T) {
	dir := filepath.Join("..", "..", "docs", "demand")
	text, err := os.ReadFile(filepath.Join(dir, "cost.md"))
	if err != nil {
		t.Fatal(err)
	}
	has := func(block string) {
		t.Helper()
		if !strings.Contains(string(text), block) {
			t.Errorf("docs/demand/cost.md lacks what is computed:\n%s", block)
		}
	}
	example := func(name string) string { return filepath.Join(dir, "examples", name) }
	files := []string{"--config", example("shard.jsonc"), "--types", example("types.yaml")}
	output := func(args ...string) string {
		return newConsole(t).ok(t, slices.Concat([]string{"demand"}, args, files)...)
	}

	has("```text\n" + output("offers") + "```\n")
	has("```text\n" + output("simulate", example("needs.yaml")) + "```\n")

	var offers []pageOffer
	if err := json.Unmarshal([]byte(output("offers", "-o", "json")), &offers); err != nil {
		t.Fatal(err)
	}
	const gib = 1 << 30
	each := func(string) bool { return true }
	spot := func(capacity string) bool { return capacity == "spot" }
	has(bidsOf(t, offers, each, 32, 10, map[string]float64{"cpu": 1000, "memory": 2 * gib, "pods": 1}))
	has(bidsOf(t, offers, each, 32, 3, map[string]float64{"cpu": 1000, "memory": 2 * gib, "pods": 1}))
	has(bidsOf(t, offers, spot, 0.5, 8, map[string]float64{"cpu": 1000, "memory": 4 * gib, "pods": 1}))
}

// pageOffer is what the rule looks at of an offer.
type pageOffer struct {
	Type        string             `json:"instance_type"`
	Capacity    string             `json:"capacity_type"`
	Price       string             `json:"hourly_price"`
	Risk        float64            `json:"interruption"`
	Allocatable map[string]float64 `json:"allocatable"`

	cost, pods, share float64
}

// bidsOf is the rule's table for so many Pods that a need lacks: offers by the cost of a unit, and what the whole comes to.
func bidsOf(t *testing.T, offers []pageOffer, may func(capacity string) bool, penalty, lacking float64, pod map[string]float64) string {
	t.Helper()
	var bids []pageOffer
	for _, o := range offers {
		if !may(o.Capacity) {
			continue
		}
		if _, err := fmt.Sscan(o.Price, &o.cost); err != nil {
			t.Fatal(err)
		}
		o.cost += o.Risk * penalty
		o.pods = math.Inf(1)
		for name, n := range pod {
			o.pods = min(o.pods, math.Floor(o.Allocatable[name]/n))
		}
		o.share = min(1, o.pods/lacking)
		bids = append(bids, o)
	}
	slices.SortStableFunc(bids, func(a, b pageOffer) int {
		if a.cost/a.share < b.cost/b.share {
			return -1
		}
		return 1
	})
	table := "| offer | cost with the risk | share | cost ÷ share | used whole | the rest costs | together |\n|---|---|---|---|---|---|---|\n"
	for _, o := range bids {
		whole := max(math.Floor(lacking/o.pods), 1)
		rest := math.Inf(1)
		for _, finish := range bids {
			rest = min(rest, math.Ceil(max(lacking-whole*o.pods, 0)/finish.pods)*finish.cost)
		}
		table += fmt.Sprintf("| `%s` %s | %.3f | %.4f | %.4f | %.0f | %.3f | %.3f |\n", o.Type, o.Capacity, o.cost, o.share, o.cost/o.share, whole, rest, whole*o.cost+rest)
	}
	return table
}
