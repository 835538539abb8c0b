package bootstrap

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"strings"
	"text/template"

	"nstance.dev/protos/binding"
)

// tokenFunction is the name of the one function that needs the API server: package jointoken
// makes tokens only while a template calls it.
const tokenFunction = "bootstrapToken"

// functions are those of a template. token and dir may be stand-ins while it is only parsed.
func functions(dir string, token func() (string, error)) template.FuncMap {
	return template.FuncMap{
		"b64":         func(v any) string { return base64.StdEncoding.EncodeToString([]byte(fmt.Sprint(v))) },
		"indent":      indent,
		"quote":       quote,
		"join":        join,
		"toJson":      toJSON,
		"trim":        func(v any) string { return strings.TrimSpace(fmt.Sprint(v)) },
		"file":        func(path string) (string, error) { return readFile(dir, path) },
		tokenFunction: token,
	}
}

// widest is the widest indentation.
const widest = 100

func indent(n int, v any) (string, error) {
	if n < 0 || n > widest {
		return "", fmt.Errorf("must be 0 to %d spaces", widest)
	}
	pad := strings.Repeat(" ", n)
	return pad + strings.ReplaceAll(fmt.Sprint(v), "\n", "\n"+pad), nil
}

// quote returns one word of a POSIX shell. Between single quotes a shell expands nothing.
func quote(v any) (string, error) {
	s := fmt.Sprint(v)
	if strings.ContainsRune(s, 0) {
		return "", errors.New("no word of a shell has a zero byte")
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'", nil
}

func join(separator string, list any) (string, error) {
	v := reflect.ValueOf(list)
	if v.Kind() != reflect.Slice && v.Kind() != reflect.Array {
		return "", fmt.Errorf("%T is not a list", list)
	}
	parts := make([]string, v.Len())
	for i := range parts {
		parts[i] = fmt.Sprint(v.Index(i))
	}
	return strings.Join(parts, separator), nil
}

func toJSON(v any) (string, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return "", fmt.Errorf("%T has no form in JSON", v)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// readFile reads a file below a directory; links that lead out of it are not followed. Errors do not quote
// the path, which may come from a variable: where it stands in the template the caller says.
func readFile(dir, path string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", reason(err)
	}
	defer func() { _ = root.Close() }() // only read from
	info, err := root.Stat(path)
	if err != nil {
		return "", reason(err)
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("not a regular file")
	}
	f, err := root.Open(path)
	if err != nil {
		return "", reason(err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, binding.MaxBlob+1))
	if err != nil {
		return "", reason(err)
	}
	if len(content) > binding.MaxBlob {
		return "", fmt.Errorf("the file is larger than %d bytes", binding.MaxBlob)
	}
	return string(content), nil
}

// reason is what is wrong with a file, without its path.
func reason(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return errors.New("the file cannot be read")
}
