package kube

import "testing"

// Start starts a cluster that ends with the test, and fails the test where that is not
// possible. If the test fails, its log has the end of each component's output; all of
// it stands in the test's artifact directory (go test -artifacts keeps it).
func Start(t testing.TB, config Config) *Cluster {
	t.Helper()
	c, err := New(t.Context(), t.TempDir(), t.ArtifactDir(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer c.Close() // what a cluster of Pods has printed goes with it
		if !t.Failed() {
			return
		}
		for _, component := range config.components() {
			t.Logf("%s:\n%s", component, c.Log(component, 40))
		}
	})
	return c
}
