package fakecloud

import (
	"maps"
	"slices"
	"strings"
)

type secret struct {
	content
	tokens map[string]content // what each request token stored
}

// content is text or bytes in base64.
type content struct{ text, binary string }

type secretInput struct {
	Name, SecretId             string
	ClientRequestToken         string
	SecretString, SecretBinary string
	ForceDeleteWithoutRecovery bool
	NextToken                  string
	Filters                    []struct {
		Key    string
		Values []string
	}
}

func (in secretInput) content() content { return content{in.SecretString, in.SecretBinary} }

func (in secretInput) check() error {
	switch {
	case in.ClientRequestToken == "":
		return invalid("", "clientRequestToken", "it must be there")
	case (in.SecretString == "") == (in.SecretBinary == ""):
		return invalid(in.SecretString+in.SecretBinary, "secretString", "one of secretString and secretBinary must be there")
	case len(in.SecretString) > 65536:
		return invalid(in.SecretString, "secretString", "Member must have length less than or equal to 65536")
	}
	return nil
}

func (a *AWS) getSecretValue(in secretInput) (any, error) {
	s, ok := a.secrets[in.SecretId]
	if !ok {
		return nil, noSecret()
	}
	out := map[string]any{"Name": in.SecretId, "VersionStages": []string{"AWSCURRENT"}}
	if s.text != "" {
		out["SecretString"] = s.text
	} else {
		out["SecretBinary"] = s.binary
	}
	return out, nil
}

func noSecret() error {
	return apiError{"ResourceNotFoundException", "Secrets Manager can't find the specified secret."}
}

func (a *AWS) createSecret(in secretInput) (any, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	if s, exists := a.secrets[in.Name]; exists {
		if stored, repeated := s.tokens[in.ClientRequestToken]; !repeated || stored != in.content() {
			return nil, apiError{"ResourceExistsException", "The operation failed because the secret " + in.Name + " already exists."}
		}
		return map[string]any{"Name": in.Name}, nil
	}
	a.secrets[in.Name] = &secret{in.content(), map[string]content{in.ClientRequestToken: in.content()}}
	return map[string]any{"Name": in.Name}, nil
}

func (a *AWS) putSecretValue(in secretInput) (any, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	s, ok := a.secrets[in.SecretId]
	if !ok {
		return nil, noSecret()
	}
	s.content = in.content()
	s.tokens[in.ClientRequestToken] = in.content()
	return map[string]any{"Name": in.SecretId}, nil
}

func (a *AWS) deleteSecret(in secretInput) (any, error) {
	if !in.ForceDeleteWithoutRecovery {
		return nil, apiError{"InvalidRequestException", "this account has no recovery window"}
	}
	delete(a.secrets, in.SecretId)
	return map[string]any{"Name": in.SecretId}, nil
}

func (a *AWS) listSecrets(in secretInput) (any, error) {
	names := slices.Collect(maps.Keys(a.secrets))
	for _, f := range in.Filters {
		if f.Key != "name" {
			return nil, invalid(f.Key, "filters", "only name is known here")
		}
		names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, f.Values[0]) })
	}
	names, next := page(names, in.NextToken)
	list := []any{}
	for _, name := range names {
		list = append(list, map[string]any{"Name": name})
	}
	out := map[string]any{"SecretList": list}
	if next != "" {
		out["NextToken"] = next
	}
	return out, nil
}

// Secrets returns the text of all secrets by their full names.
func (a *AWS) Secrets() map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string]string{}
	for name, s := range a.secrets {
		out[name] = s.text
	}
	return out
}

// PutSecret stores a secret as somebody else would.
func (a *AWS) PutSecret(name, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.secrets[name] = &secret{content{text: text}, map[string]content{}}
}
