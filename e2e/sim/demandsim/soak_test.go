package demandsim_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"
)

var soak = flag.Duration("soak", 30*time.Minute, "how long the soak is in its own time")

// TestE1_ASteadyLoadBuysAndGivesBackNothing replaces a twentieth of the Pods in every minute, each of
// which its controller makes again within seconds: what is asked for is constant, so no machine comes
// or goes once all are there.
func TestE1_ASteadyLoadBuysAndGivesBackNothing(t *testing.T) {
	const begun = 5 * time.Minute
	var b strings.Builder
	fmt.Fprintf(&b, "set boot 30s\nset clusters 2\nset length %s\n", begun+*soak)
	for c := range 2 {
		fmt.Fprintf(&b, "1m set cluster-%c tiny web 200\n1m set cluster-%c tiny api 100\n", 'a'+c, 'a'+c)
		for at := begun; at < begun+*soak; at += 20 * time.Second {
			fmt.Fprintf(&b, "%s churn cluster-%c 5\n", at, 'a'+c)
		}
	}
	res := search.Play(t, plan(t, b.String()))
	for _, v := range res.Violations {
		t.Errorf("%s", v)
	}
	quiet := res.Log
	for i, line := range res.Log {
		if strings.Contains(line, "churn") {
			quiet = res.Log[i:]
			break
		}
	}
	counts := count(t, quiet)
	if counts["churned"] < 100 {
		t.Fatalf("%d Pods were replaced: the soak does nothing", counts["churned"])
	}
	for _, kind := range []string{"provision", "reclaim", "delete", "bootstrap"} {
		if counts[kind] > 0 {
			broken(t, "E1", "%s happens %d times at a steady load", kind, counts[kind])
		}
	}
}
