package image_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"nstance.dev/tools/image"
)

// Who builds the operator's image with a container engine gets the same one.
func TestDockerfileSaysTheSame(t *testing.T) {
	text, err := os.ReadFile("../../operator/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for _, want := range []string{"FROM scratch", "USER " + image.User, "WORKDIR /", `ENTRYPOINT ["/nstance-operator"]`, "COPY --from=build /out/nstance-operator /out/nstance-pod-demand /",
		"COPY --from=build /out/copyright /usr/share/doc/nstance-operator/copyright"} {
		if !slices.Contains(lines, want) {
			t.Errorf("the Dockerfile lacks %q", want)
		}
	}
}
