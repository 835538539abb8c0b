package bench

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
)

// told runs one of this package's tests, for the fake clock that only tests have,
// and returns the number that it tells in an attribute. The test runs at the size
// of the measure; with the race detector, whose cost grows with the square of the
// goroutines, tests are smaller.
func told(ctx context.Context, env Env, test, attribute string) (float64, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-v", "-run", "^"+test+"$", "./e2e/perf/bench",
		"-instances", strconv.Itoa(quietOnes), "-creates", strconv.Itoa(scaleUp))
	cmd.Dir = env.Root
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%s: %w\n%s", test, err, out)
	}
	line := regexp.MustCompile(`(?m)^=== ATTR +` + test + ` ` + attribute + ` (\S+)$`)
	found := line.FindSubmatch(out)
	if found == nil {
		return 0, fmt.Errorf("%s says no %s", test, attribute)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}
