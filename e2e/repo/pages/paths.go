package pages

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"nstance.dev/server/peers"
)

// paths are those at which our programs answer HTTP.
type paths []*regexp.Regexp

var placeholder = regexp.MustCompile(`\\{[a-z_]+\\}`)

// readPaths reads the paths of the HTTP API, and knows those of a server's own probes.
func readPaths(root string) (paths, error) {
	text, err := os.ReadFile(filepath.Join(root, "admin", "gateway", "openapi.json"))
	if err != nil {
		return nil, err
	}
	var api struct{ Paths map[string]any }
	if err := json.Unmarshal(text, &api); err != nil {
		return nil, fmt.Errorf("openapi.json: %w", err)
	}
	var all paths
	for _, path := range []string{"/livez", "/readyz", "/metrics", peers.ShardPath, peers.ClusterPath} {
		api.Paths[path] = nil
	}
	for path := range api.Paths {
		all = append(all, regexp.MustCompile("^"+placeholder.ReplaceAllString(regexp.QuoteMeta(path), "[^/]+")+"$"))
	}
	return all, nil
}

// check demands that what is fetched of our programs exists. Of other addresses nothing is known.
func (p paths) check(args []string) error {
	for _, arg := range args {
		if !strings.HasPrefix(arg, "http://") && !strings.HasPrefix(arg, "https://") {
			continue
		}
		address, err := url.Parse(strings.ReplaceAll(arg, unknown, "x"))
		if err != nil {
			return err
		}
		if host := address.Hostname(); host != "127.0.0.1" && host != "localhost" && !strings.HasSuffix(host, ".example") {
			return fmt.Errorf("%s: %w", host, ErrUnknown)
		}
		for _, known := range p {
			if known.MatchString(address.Path) {
				return nil
			}
		}
		return fmt.Errorf("%s: no program of ours answers at that path", address.Path)
	}
	return fmt.Errorf("no address: %w", ErrUnknown)
}
