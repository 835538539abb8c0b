package site

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// drawn finds a picture in what Chromium says of its page.
var drawn = regexp.MustCompile(`(?s)<div id="drawn">(<svg.*?</svg>)</div>`)

// Draw draws the diagrams of all pages that were not drawn yet, with mermaid's script and
// Chromium, and removes pictures of which no page has the diagram any more.
func Draw(root, mermaid string) error {
	pages, err := readPages(markdown(), root)
	if err != nil {
		return err
	}
	folder := filepath.Join(root, filepath.FromSlash(PictureFolder))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	used := map[string]bool{}
	var problems []error
	for _, p := range pages {
		for _, diagram := range p.diagrams() {
			name := pictureName(diagram)
			used[name] = true
			if _, err := readPicture(root, diagram); err == nil {
				continue
			}
			svg, err := drawOne(mermaid, strings.TrimSuffix(name, ".svg"), diagram)
			if err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", p.path, err))
				continue
			}
			if err := os.WriteFile(filepath.Join(folder, name), svg, 0o644); err != nil { //nolint:gosec // pictures are for everybody
				return err
			}
		}
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !used[entry.Name()] {
			problems = append(problems, os.Remove(filepath.Join(folder, entry.Name())))
		}
	}
	return errors.Join(sorted(slices.DeleteFunc(problems, func(err error) bool { return err == nil }))...)
}

// drawOne draws a diagram. Its id tells the styles of several pictures on a page apart.
func drawOne(mermaid, id, diagram string) ([]byte, error) {
	script, err := filepath.Abs(mermaid)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(diagram)
	if err != nil {
		return nil, err
	}
	source := url.URL{Scheme: "file", Path: script}
	dir, err := os.MkdirTemp("", "site-draw-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary folder
	name := filepath.Join(dir, "draw.html")
	content := fmt.Sprintf(canvas, html.EscapeString(source.String()), "d"+id, text)
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		return nil, err
	}
	var stderr bytes.Buffer
	cmd := exec.Command("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", //nolint:gosec // the arguments are ours
		"--user-data-dir="+filepath.Join(dir, "profile"), "--virtual-time-budget=20000", "--dump-dom", "file://"+name)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("chromium: %w: %s", err, stderr.String())
	}
	found := drawn.FindSubmatch(out)
	if found == nil {
		_, why, _ := strings.Cut(string(out), "</div>error: ")
		return nil, fmt.Errorf("draw the diagram\n%s%s", diagram, strings.TrimSuffix(strings.TrimSpace(why), "</body></html>"))
	}
	return append(found[1], '\n'), nil
}

// canvas is a page that draws one diagram.
const canvas = `<!doctype html><meta charset="utf-8"><body><script src="%s"></script><script>
mermaid.initialize({startOnLoad: false, theme: "neutral", htmlLabels: false, flowchart: {htmlLabels: false}, deterministicIds: true});
mermaid.render(%q, %s).then(({svg}) => {
  const div = document.createElement("div");
  div.id = "drawn";
  div.innerHTML = svg;
  document.body.replaceChildren(div);
}, (err) => document.body.append("error: " + err));
</script></body>`
