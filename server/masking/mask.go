package masking

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
)

// Shown is what stands in the place of what is masked.
const (
	ShownNonce    = "[nonce masked]"
	ShownUserData = "[user data masked]"
	ShownKey      = "[private key masked]"
)

// How many characters a piece of user data has to have that is looked for within lines, and beside
// an action at the beginning of a word. Shorter ones, such as `fi`, have to be where they are in the template.
const (
	telling    = 8
	suggesting = 3
)

// Mask masks. The zero value knows no user data. It is safe for concurrent use.
type Mask struct {
	long  []pattern       // found anywhere in a line
	short []pattern       // with something rendered beside them
	whole map[string]bool // short lines in which nothing is rendered
}

// pattern is pieces of a line of a template, with something rendered between them.
type pattern struct {
	pieces         []string
	size           int  // of all pieces
	before, beyond bool // something is rendered before the first piece, after the last
}

// New returns the mask for user data that is rendered from a template and the values of variables.
// Those are looked for where they stand in lines of their own.
func New(template string, values []string) Mask {
	m, bare := Mask{whole: map[string]bool{}}, false
	for line := range strings.Lines(actions.ReplaceAllStringFunc(template, oneLine)) {
		all := patterns(line)
		for _, p := range all {
			m.add(p)
		}
		bare = bare || len(all) == 0 && strings.Contains(line, ".Vars")
	}
	if !bare {
		return m
	}
	for _, value := range values {
		for line := range strings.Lines(value) {
			if line = even(line); line != "" {
				m.add(pattern{pieces: []string{line}, size: len(line)})
			}
		}
	}
	return m
}

var (
	// actions are those of text/template. A brace within a quoted text ends one too early, which makes a piece longer
	// that then has to be found: nobody writes that.
	actions = regexp.MustCompile(`(?s)\{\{.*?\}\}`)
	// branches are actions of which some text depends.
	branches = regexp.MustCompile(`^\{\{-?\s*(?:if|else|end|range|with|block|define)\b`)
)

func oneLine(action string) string { return strings.ReplaceAll(action, "\n", " ") }

// patterns are what a line of a template may become. Text beside a branch may be there without the rest.
func patterns(line string) []pattern {
	var all []pattern
	var now pattern
	flush := func() {
		if len(now.pieces) > 0 {
			all = append(all, now)
		}
		now = pattern{}
	}
	at := 0
	for _, span := range append(actions.FindAllStringIndex(line, -1), []int{len(line), len(line)}) {
		if piece := even(line[at:span[0]]); piece != "" {
			now.pieces, now.size, now.beyond = append(now.pieces, piece), now.size+len(piece), false
		}
		at = span[1]
		switch {
		case span[0] == span[1], branches.MatchString(line[span[0]:span[1]]):
			flush()
		case len(now.pieces) == 0:
			now.before = true
		default:
			now.beyond = true
		}
	}
	return all
}

func (m *Mask) add(p pattern) {
	switch {
	case p.size >= telling:
		m.long = append(m.long, p)
	case p.before, p.beyond, len(p.pieces) > 1:
		m.short = append(m.short, p)
	default:
		m.whole[p.pieces[0]] = true
	}
}

// even is a line with one blank for each run of blanks, and none at its ends. Quotes are left out: a shell that prints what it
// does quotes in its own way, and a tool that fails with its arguments has none.
func even(line string) string { return strings.Join(strings.Fields(quotes.Replace(line)), " ") }

var quotes = strings.NewReplacer(`"`, "", `'`, "", `\`, "")

// in reports whether the pieces stand in a line, one after another.
func (p pattern) in(line string) bool {
	for _, piece := range p.pieces {
		_, rest, found := strings.Cut(line, piece)
		if !found {
			return false
		}
		line = rest
	}
	return true
}

// begins reports whether the pieces stand in a line from the beginning of a word on.
func (p pattern) begins(line string) bool {
	for at := 0; ; {
		i := strings.Index(line[at:], p.pieces[0])
		if i < 0 {
			return false
		}
		if at += i; (at == 0 || !isWord(line[at-1])) && p.in(line[at:]) {
			return true
		}
		at++
	}
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// is reports whether a line is one of the pattern as it stands in the template.
func (p pattern) is(line string) bool {
	return (p.before || strings.HasPrefix(line, p.pieces[0])) && (p.beyond || strings.HasSuffix(line, p.pieces[len(p.pieces)-1])) && p.in(line)
}

var (
	// nonces are tokens in the form of those that agents register with, whole or cut off at their end.
	nonces = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*){0,2}`)
	keys   = regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|$)`)
	// keyEnds are the ends of keys whose beginning is missing.
	keyEnds = regexp.MustCompile(`(?m)(?:^.*[A-Za-z0-9+/=]{16,}\s*\n)*^.*-----END [A-Z0-9 ]*PRIVATE KEY-----`)
	// encoded are the lines of an encoding of anything, each long enough to hold something, and rest the last of them.
	encoded = regexp.MustCompile(`^[A-Za-z0-9+/_-]{16,}={0,2}$`)
	rest    = regexp.MustCompile(`^(?:[A-Za-z0-9+/_-]{4}){0,3}(?:[A-Za-z0-9+/_-]{4}|[A-Za-z0-9+/_-]{2}==|[A-Za-z0-9+/_-]{3}=)$`)
)

// Apply returns text, which is made plain, without what it must not tell, and how many places that was.
func (m Mask) Apply(text string) (masked string, places int) {
	key := func(string) string { places++; return ShownKey }
	text = keyEnds.ReplaceAllStringFunc(keys.ReplaceAllStringFunc(Plain(text), key), key)
	lines := strings.SplitAfter(text, "\n")
	for i, known := 0, 0; i < len(lines); i++ { // no line before known begins something encoded that must not be told
		if i >= known {
			from, n := m.encodedBlock(lines[i:])
			if known = i + n; from < n {
				places++
				lines = slices.Replace(lines, i+from, i+n, ShownUserData+"\n")
				known = i + from + 1
			}
		}
		if m.tells(lines[i]) {
			places++
			lines[i] = ShownUserData + ending(lines[i])
		}
		lines[i] = nonces.ReplaceAllStringFunc(lines[i], func(string) string { places++; return ShownNonce })
	}
	return strings.Join(lines, ""), places
}

func ending(line string) string {
	if strings.HasSuffix(line, "\n") {
		return "\n"
	}
	return ""
}

// tells reports whether a line tells some user data.
func (m Mask) tells(line string) bool {
	line = even(line)
	return m.whole[line] ||
		slices.ContainsFunc(m.long, func(p pattern) bool { return p.in(line) }) ||
		slices.ContainsFunc(m.short, func(p pattern) bool { return p.is(line) || p.size >= suggesting && p.begins(line) })
}

// encodedBlock is how many lines, from the first on, are an encoding of anything, and from which of them on that must not be told; n: none.
// Each line is decoded once, whatever a machine writes.
func (m *Mask) encodedBlock(lines []string) (from, n int) {
	var text strings.Builder
	packed := -1
	for n < len(lines) {
		word := strings.TrimSpace(lines[n])
		if !encoded.MatchString(word) {
			break
		}
		if at := strings.Index(word, zipped); packed < 0 && at >= 0 && at < 4 {
			packed = n
		}
		text.WriteString(word)
		n++
	}
	if n == 0 {
		return 0, 0
	}
	if n < len(lines) {
		if word := strings.TrimSpace(lines[n]); rest.MatchString(word) {
			text.WriteString(word)
			n++
		}
	}
	for shift := range 4 { // its beginning may be missing
		if data := decoded(text.String(), shift); m.tellsData(data) {
			return 0, n
		}
	}
	if packed >= 0 {
		return packed, n
	}
	return n, n
}

// decoded is what a text in base64 says, as far as it can be read, from a place on.
func decoded(text string, from int) []byte {
	text = strings.NewReplacer("-", "+", "_", "/", "=", "").Replace(text)
	if from >= len(text) {
		return nil
	}
	text = text[from:]
	data, err := base64.RawStdEncoding.DecodeString(text[:len(text)/4*4])
	if err != nil {
		return nil
	}
	return data
}

// zipped is how everything begins that gzip has made, in base64.
const zipped = "H4sI"

// tellsData reports whether what was encoded is user data.
func (m *Mask) tellsData(data []byte) bool {
	for line := range strings.Lines(strings.ToValidUTF8(string(data), "\uFFFD")) {
		line = even(line)
		if nonces.MatchString(line) || slices.ContainsFunc(m.long, func(p pattern) bool { return p.in(line) }) {
			return true
		}
	}
	return false
}
