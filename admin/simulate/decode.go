package simulate

import (
	"fmt"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

var (
	wrongKind  = regexp.MustCompile(`cannot unmarshal (\w+) into Go (?:struct field \w+\.(\S+)|value) of type (\S+)`)
	unknownKey = regexp.MustCompile(`unknown field ("[^"]*")`)
)

// decode reads YAML or JSON. Keys that are not known are an error. What is wrong is said by its place, as far as that
// is known, and with a remedy.
func decode(data []byte, into any, remedy string) error {
	err := yaml.UnmarshalStrict(data, into)
	if err == nil {
		return nil
	}
	text := err.Error()
	if found := wrongKind.FindStringSubmatch(text); found != nil {
		place := "the file"
		if found[2] != "" {
			place = found[2]
		}
		return fmt.Errorf("%s: expected %s, found %s; %s", place, kindOf(found[3]), kindOf(found[1]), remedy)
	}
	if found := unknownKey.FindStringSubmatch(text); found != nil {
		return fmt.Errorf("unknown key %s; %s", found[1], remedy)
	}
	for _, prefix := range []string{"error unmarshaling JSON: ", "while decoding JSON: ", "error converting YAML to JSON: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return fmt.Errorf("%s; %s", text, remedy)
}

// kindOf is a kind of value of Go, or of JSON, in words.
func kindOf(name string) string {
	switch {
	case strings.HasPrefix(name, "int"), strings.HasPrefix(name, "uint"):
		return "a whole number"
	case strings.HasPrefix(name, "float"), name == "number":
		return "a number"
	case name == "string":
		return "a string"
	case strings.HasPrefix(name, "bool"):
		return "true or false"
	case strings.HasPrefix(name, "[]"), name == "array":
		return "a list"
	default:
		return "an object"
	}
}
