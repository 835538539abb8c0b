package needs

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Operator is how a requirement compares a label with its values. Its number is part of the
// canonical form; on the wire it is one higher.
type Operator uint8

// The operators. Same exists between operator and shard alone: no user writes it.
const (
	In           Operator = iota // the label is one of the values
	NotIn                        // the label is absent or none of the values
	Exists                       // the label is present
	DoesNotExist                 // the label is absent
	Same                         // all machines of the need have the same value
	Gt                           // the label is an integer above the value
	Lt                           // the label is an integer below the value
)

var operatorNames = [...]string{"In", "NotIn", "Exists", "DoesNotExist", "Same", "Gt", "Lt"}

// String returns the operator as Kubernetes writes it.
func (o Operator) String() string {
	if int(o) < len(operatorNames) {
		return operatorNames[o]
	}
	return "Operator(" + strconv.Itoa(int(o)) + ")"
}

// ParseOperator returns the operator that Kubernetes writes as name. Same is none of them.
func ParseOperator(name string) (Operator, bool) {
	i := slices.Index(operatorNames[:], name)
	if i < 0 || Operator(i) == Same {
		return 0, false
	}
	return Operator(i), true
}

// Requirement is a condition on one label of a machine.
type Requirement struct {
	Key      string
	Operator Operator
	Values   []string // In and NotIn: at least one; Gt and Lt: one integer; others: none
}

// CompareRequirements orders requirements by key, operator and values. The values of both
// must be sorted.
func CompareRequirements(a, b Requirement) int {
	return cmp.Or(strings.Compare(a.Key, b.Key), cmp.Compare(a.Operator, b.Operator), slices.Compare(a.Values, b.Values))
}

// NormalRequirements returns the requirements as a set: the values of each sorted bytewise
// and without duplicates, themselves sorted and without duplicates. It changes nothing.
func NormalRequirements(rs []Requirement) []Requirement {
	if len(rs) == 0 {
		return nil
	}
	normal := make([]Requirement, len(rs))
	for i, r := range rs {
		normal[i] = Requirement{Key: r.Key, Operator: r.Operator, Values: normalStrings(r.Values)}
	}
	slices.SortFunc(normal, CompareRequirements)
	return slices.CompactFunc(normal, func(a, b Requirement) bool { return CompareRequirements(a, b) == 0 })
}

// normalStrings returns a sorted copy without duplicates.
func normalStrings(values []string) []string {
	if len(values) == 0 {
		return nil
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}

// NormalAlternatives returns each alternative as a set, sorted and without duplicates.
func NormalAlternatives(alternatives [][]Requirement) [][]Requirement {
	if len(alternatives) == 0 {
		return nil
	}
	normal := make([][]Requirement, len(alternatives))
	for i, rs := range alternatives {
		normal[i] = NormalRequirements(rs)
	}
	compare := func(a, b []Requirement) int { return slices.CompareFunc(a, b, CompareRequirements) }
	slices.SortFunc(normal, compare)
	return slices.CompactFunc(normal, func(a, b []Requirement) bool { return compare(a, b) == 0 })
}

// appendRequirements writes a normal list of requirements.
func appendRequirements(b []byte, rs []Requirement) []byte {
	for i, r := range rs {
		if i > 0 {
			b = append(b, '|')
		}
		b = appendPercent(b, r.Key)
		b = append(b, ':')
		b = strconv.AppendUint(b, uint64(r.Operator), 10)
		b = append(b, ':')
		for j, v := range r.Values {
			if j > 0 {
				b = append(b, ',')
			}
			b = appendPercent(b, v)
		}
	}
	return b
}

// ValidInteger says whether a value is what Gt and Lt compare with: a decimal integer of 64 bits.
func ValidInteger(value string) bool {
	_, err := strconv.ParseInt(value, 10, 64)
	return err == nil
}

// ValidKey says whether a string may be the key of a label: 1 to 317 bytes, an optional
// prefix of lower case letters, digits, '-' and '.' before a '/', and a name of letters,
// digits, '-', '_' and '.', which begins and ends with a letter or digit. Names of resources
// have the same form.
func ValidKey(key string) bool {
	prefix, name, prefixed := strings.Cut(key, "/")
	if !prefixed {
		prefix, name = "", key
	}
	if prefixed && (len(prefix) == 0 || len(prefix) > 253 || !all(prefix, isPrefixByte)) {
		return false
	}
	if len(name) == 0 || len(name) > 63 || !all(name, isNameByte) {
		return false
	}
	return isAlphanumeric(name[0]) && isAlphanumeric(name[len(name)-1])
}

func all(s string, is func(byte) bool) bool {
	for i := range len(s) {
		if !is(s[i]) {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func isNameByte(c byte) bool { return isAlphanumeric(c) || c == '-' || c == '_' || c == '.' }

func isPrefixByte(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '.'
}

const hexDigits = "0123456789ABCDEF"

// appendPercent writes s with every byte outside [A-Za-z0-9._/-] as %XX.
func appendPercent(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; isNameByte(c) || c == '/' {
			b = append(b, c)
		} else {
			b = append(b, '%', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return b
}

// unescape is the other way round. What appendPercent has not written it leaves as it is.
func unescape(s string) string {
	plain, err := url.PathUnescape(s)
	if err != nil {
		return s
	}
	return plain
}
