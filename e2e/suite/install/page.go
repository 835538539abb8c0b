package install

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Section returns a section of a page of Markdown, by its heading without the signs in front:
// what stands below it up to the next heading of the same level or a higher one.
func Section(path, title string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	heading := regexp.MustCompile(`(?m)^(#+) ` + regexp.QuoteMeta(title) + `$`)
	at := heading.FindSubmatchIndex(text)
	if at == nil {
		return "", fmt.Errorf("%s has no section %q", path, title)
	}
	rest, level := string(text[at[1]:]), at[3]-at[2]
	fenced := false
	var section strings.Builder
	for line := range strings.Lines(rest) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if signs := len(line) - len(strings.TrimLeft(line, "#")); !fenced && signs > 0 && signs <= level {
			break
		}
		section.WriteString(line)
	}
	return section.String(), nil
}

var block = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")

// Blocks returns the code blocks of a section that are in one language, in their order.
func Blocks(section, language string) []string {
	var blocks []string
	for _, found := range block.FindAllStringSubmatch(section, -1) {
		if found[1] == language {
			blocks = append(blocks, found[2])
		}
	}
	return blocks
}
