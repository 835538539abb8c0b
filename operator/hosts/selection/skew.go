package selection

import (
	"fmt"
	"regexp"
	"strconv"
)

// oldest is how many minor versions a kubelet may be older than the API server.
const oldest = 3

var semantic = regexp.MustCompile(`^v?([0-9]+)\.([0-9]+)`)

// Skew returns why a kubelet does not go with an API server; empty: it does, or one of the
// versions cannot be read. A kubelet of the same minor version goes with any patch release.
func Skew(kubelet, apiServer string) string {
	k, readable := minor(kubelet)
	a, known := minor(apiServer)
	switch {
	case !readable || !known:
		return ""
	case k.major > a.major || k.major == a.major && k.minor > a.minor:
		return fmt.Sprintf("which is newer than the API server's %s", apiServer)
	case k.major < a.major || k.minor < a.minor-oldest:
		return fmt.Sprintf("which is more than %d minor versions older than the API server's %s", oldest, apiServer)
	}
	return ""
}

type release struct{ major, minor int }

func minor(version string) (release, bool) {
	parts := semantic.FindStringSubmatch(version)
	if parts == nil {
		return release{}, false
	}
	major, err1 := strconv.Atoi(parts[1])
	minor, err2 := strconv.Atoi(parts[2])
	return release{major, minor}, err1 == nil && err2 == nil
}
