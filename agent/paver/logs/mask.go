package logs

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Masked stands for what was a secret, or looked like one.
const Masked = "<masked>"

// shortest is how long a known secret is at least: one that is shorter would mask half of a text.
const shortest = 8

// form is what a kind of secret looks like.
type form struct {
	pattern *regexp.Regexp
	with    string
	// words are parts of which every such text has one, in lower case; none: any text may be one. To look for words costs a
	// hundredth of what the pattern costs.
	words []string
	// run is how many characters of base64 such a text has one after the other at least.
	run int
}

// names are parts of the names of secrets.
var names = []string{
	"password", "passwd", "passphrase", "secret", "token", "nonce", "apikey", "api-key", "api_key", "accesskey", "access-key", "access_key",
	"privatekey", "private-key", "private_key", "clientkey", "client-key", "client_key", "credential", "auth", "cookie", "userdata", "user-data", "user_data",
}

var forms = []form{
	// Authorization headers, with the scheme left.
	{pattern: regexp.MustCompile(`(?i)\b(bearer|basic|negotiate|digest)\s+[A-Za-z0-9+/=_.~:-]{6,}`), with: "$1 " + Masked, words: []string{"bearer", "basic", "negotiate", "digest"}},
	// name=value, name: value, "name": "value".
	{
		pattern: regexp.MustCompile(`(?i)((?:` + strings.Join(names, "|") + `)[a-z0-9_.-]*(?:\\*["'])?\s*[:=]\s*)` + value), with: "${1}" + Masked,
		words: names,
	},
	// --name value.
	{
		pattern: regexp.MustCompile(`(?i)((?:^|[^a-z0-9-])--?[a-z0-9-]*(?:` + strings.Join(names, "|") + `|key)[a-z0-9-]*\s+)` + value), with: "${1}" + Masked,
		words: append([]string{"key"}, names...),
	},
	// JSON web tokens, whole or cut.
	{pattern: regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){0,4}`), with: Masked, words: []string{"eyj"}, run: 11},
	// Bootstrap tokens of Kubernetes.
	{pattern: regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`), with: Masked, words: []string{"."}, run: 16},
	// Keys of clouds, and tokens of code hosts.
	{
		pattern: regexp.MustCompile(`\b(?:AKIA|ASIA|AIza|ya29\.|gh[pousr]_|glpat-|xox[abprs]-)[A-Za-z0-9_.-]{10,}`), with: Masked,
		words: []string{"akia", "asia", "aiza", "ya29.", "gh", "glpat-", "xox"},
	},
	// Logins in addresses, and signatures of addresses that were signed.
	{pattern: regexp.MustCompile(`(://)[^/\s:@"']*:[^/\s@"']*@`), with: "${1}" + Masked + "@", words: []string{"://"}},
	{
		pattern: regexp.MustCompile(`(?i)([?&][a-z0-9_.-]*(?:signature|credential|sig|security-token)=)[^&\s"']+`), with: "${1}" + Masked,
		words: []string{"sig", "credential", "security-token"},
	},
	// What is encoded in base64, where it is longer than digests and identifiers are.
	{pattern: regexp.MustCompile(`[A-Za-z0-9+/_-]{96,}={0,2}`), with: Masked, run: 96},
	// A line that is nothing but base64: of a key whose beginning is further up than the logs go.
	{pattern: regexp.MustCompile(`(?m)^[ \t]*[A-Za-z0-9+/_-]{40,}={0,2}[ \t]*$`), with: Masked, run: 40},
}

// applies reports whether a text may be one of the form. lower is the text in lower case, and run its longest run of base64.
func (f form) applies(lower string, run int) bool {
	return run >= f.run && (f.words == nil || slices.ContainsFunc(f.words, func(w string) bool { return strings.Contains(lower, w) }))
}

// longestRun is how many characters of base64 a text has one after the other at most.
func longestRun(text string) (longest int) {
	run := 0
	for i := range len(text) {
		switch c := text[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '+', c == '/', c == '_', c == '-':
			run++
			longest = max(longest, run)
		default:
			run = 0
		}
	}
	return longest
}

// value is what follows a name: in quotes, whose end may be cut off, or up to the next blank or quote, so that rather a comma too many is
// masked than the half of a password that has one. Quotes after backslashes are of JSON within JSON, and end at others like them.
const value = `(?:\\+"(?:[^"\\]|\\[^"])*(?:\\*"|$)|"(?:[^"\\]|\\[\s\S])*(?:"|$)|'[^']*(?:'|$)|[^\s"']+)`

var (
	begins = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----`)
	ends   = regexp.MustCompile(`-----END [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----`)
	block  = regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----.*?(-----END [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----|$)`)
	// userData are the identifiers and units of programs that print user data, or what that prints.
	userData = regexp.MustCompile(`(?i)^(cloud-(init|config|final)|user-?data|ignition|startup-script|google_metadata_script_runner)`)
)

// mostSources is how many writers of private keys are remembered at once.
const mostSources = 1024

// Mask takes secrets out of messages. Make one with [NewMask]; it is for one journal, whose messages come in their order.
type Mask struct {
	known  *strings.Replacer
	inKey  map[string]bool // sources that are in the middle of a private key
	Number int             // messages in which something was masked
}

// NewMask returns a mask that knows secrets. What has fewer than eight bytes is not looked for.
func NewMask(secrets []string) *Mask {
	var all []string
	for _, s := range secrets {
		if s = strings.TrimSpace(s); len(s) < shortest {
			continue
		}
		encoded := base64.StdEncoding.EncodeToString([]byte(s))
		all = append(all, s, encoded, strings.TrimRight(encoded, "="), url.QueryEscape(s))
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) }) // one may be in another
	var pairs []string
	for _, s := range slices.Compact(all) {
		pairs = append(pairs, s, Masked)
	}
	return &Mask{known: strings.NewReplacer(pairs...), inKey: map[string]bool{}}
}

// message masks one message of a source.
func (m *Mask) message(e entry) string {
	masked := m.masked(e)
	if masked != e.message {
		m.Number++
	}
	return masked
}

func (m *Mask) masked(e entry) string {
	source := e.source()
	if userData.MatchString(e.identifier) || userData.MatchString(e.unit) {
		return Masked
	}
	text := e.message
	if m.inKey[source] {
		end := ends.FindStringIndex(text)
		if end == nil {
			return Masked
		}
		delete(m.inKey, source)
		text = Masked + text[end[1]:]
	}
	if !strings.Contains(text, "PRIVATE KEY") {
		return m.short(text)
	}
	if last := lastOf(begins, text); last >= 0 && lastOf(ends, text) < last {
		if len(m.inKey) >= mostSources { // nobody writes so many keys at once
			clear(m.inKey)
		}
		m.inKey[source] = true
	}
	return m.short(block.ReplaceAllString(text, Masked))
}

// short masks the secrets of a text that are no private keys.
func (m *Mask) short(text string) string {
	text = m.known.Replace(text)
	lower, run := strings.ToLower(text), longestRun(text)
	for _, f := range forms {
		if f.applies(lower, run) {
			text = f.pattern.ReplaceAllString(text, f.with)
		}
	}
	return text
}

func lastOf(pattern *regexp.Regexp, text string) int {
	all := pattern.FindAllStringIndex(text, -1)
	if len(all) == 0 {
		return -1
	}
	return all[len(all)-1][0]
}

// Leaves are the strings in a document of JSON; what is none is a string itself. Pull secrets hold their secrets so.
func Leaves(document []byte) []string {
	var v any
	if json.Unmarshal(document, &v) != nil {
		return []string{string(document)}
	}
	var all []string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			all = append(all, v)
			if login, err := base64.StdEncoding.DecodeString(v); err == nil {
				if _, password, ok := strings.Cut(string(login), ":"); ok {
					all = append(all, string(login), password)
				}
			}
		case map[string]any:
			for _, member := range v {
				walk(member)
			}
		case []any:
			for _, member := range v {
				walk(member)
			}
		}
	}
	walk(v)
	return all
}
