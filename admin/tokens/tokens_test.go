package tokens_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/admin/tokens"
)

func TestATokenOpensUntilItExpiresOrIsRevoked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	synctest.Test(t, func(t *testing.T) {
		admin, server := tokens.Open(path, nil), tokens.Open(path, nil)
		if _, err := server.Check("nst_x"); !errors.Is(err, tokens.ErrUnknown) {
			t.Errorf("without a file: %v", err)
		}
		short, _, err := admin.Create(tokens.Token{Tenant: "red", Access: tokens.Read, Expires: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		long, made, err := admin.Create(tokens.Token{Tenant: "blue", Access: tokens.Write, Note: "ci", Expires: time.Now().Add(48 * time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := server.Check(short); err != nil || got.Tenant != "red" || got.Access != tokens.Read {
			t.Errorf("the first token opens %+v, %v", got, err)
		}
		if got, err := server.Check(long); err != nil || got != made {
			t.Errorf("the second token opens %+v, %v; want %+v", got, err, made)
		}
		time.Sleep(time.Hour)
		if _, err := server.Check(short); !errors.Is(err, tokens.ErrExpired) {
			t.Errorf("after an hour: %v", err)
		}
		if err := admin.Revoke(made.ID, "tok000000000000"); err == nil {
			t.Error("an id that is unknown was revoked")
		}
		if err := admin.Revoke(made.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := server.Check(long); !errors.Is(err, tokens.ErrUnknown) {
			t.Errorf("after it was revoked: %v", err)
		}
	})
}

func TestTheFileHoldsNoToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	file := tokens.Open(path, nil)
	token, _, err := file.Create(tokens.Token{Tenant: "red", Access: tokens.Read, Expires: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if secret := strings.TrimPrefix(token, tokens.Prefix); strings.Contains(string(data), secret) || len(secret) != 43 {
		t.Errorf("the file holds the token:\n%s", data)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
}

func TestTokensThatAreNone(t *testing.T) {
	file := tokens.Open(filepath.Join(t.TempDir(), "tokens.json"), nil)
	good := tokens.Token{Tenant: "red", Access: tokens.Read, Expires: time.Now().Add(time.Hour)}
	for name, change := range map[string]func(*tokens.Token){
		"tenant":  func(t *tokens.Token) { t.Tenant = "../red" },
		"access":  func(t *tokens.Token) { t.Access = "all" },
		"note":    func(t *tokens.Token) { t.Note = strings.Repeat("x", 201) },
		"expires": func(t *tokens.Token) { t.Expires = time.Now() },
	} {
		bad := good
		change(&bad)
		if _, _, err := file.Create(bad); err == nil || !strings.Contains(err.Error(), name+":") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if list, err := file.List(); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestAFileThatCannotBeReadLetsNobodyIn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	token, _, err := tokens.Open(path, nil).Create(tokens.Token{Tenant: "red", Access: tokens.Read, Expires: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"no JSON": "{", "an unknown field": `{"tokens":[],"all":true}`, "a token without a hash": `{"tokens":[{"tenant":"red"}]}`, "two objects": `{"tokens":[]}{}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := tokens.Open(path, nil).Check(token); err == nil || errors.Is(err, tokens.ErrUnknown) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestManyCreateAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	var making sync.WaitGroup
	for range 8 {
		making.Go(func() {
			if _, _, err := tokens.Open(path, nil).Create(tokens.Token{Tenant: "red", Access: tokens.Read, Expires: time.Now().Add(time.Hour)}); err != nil {
				t.Error(err)
			}
		})
	}
	making.Wait()
	if list, err := tokens.Open(path, nil).List(); err != nil || len(list) != 8 {
		t.Errorf("%d tokens, %v", len(list), err)
	}
}

// What a process that was killed leaves behind keeps nobody waiting.
func TestALockThatNobodyHasIsTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	if err := os.WriteFile(path+".lock", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := tokens.Open(path, nil).Create(tokens.Token{Tenant: "red", Access: tokens.Read, Expires: time.Now().Add(time.Hour)}); err != nil {
		t.Error(err)
	}
}

// A revoked token opens nothing, also where another was made within one tick of the clock.
func TestChangesWithinATickAreSeen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	admin, server := tokens.Open(path, nil), tokens.Open(path, nil)
	tick := time.Now()
	made := func() (string, tokens.Token) {
		token, made, err := admin.Create(tokens.Token{Tenant: "red", Access: tokens.Read, Expires: tick.Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		return token, made
	}
	token, first := made()
	if err := os.Chtimes(path, tick, tick); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Check(token); err != nil {
		t.Fatal(err)
	}
	if err := admin.Revoke(first.ID); err != nil {
		t.Fatal(err)
	}
	made()
	if err := os.Chtimes(path, tick, tick); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Check(token); !errors.Is(err, tokens.ErrUnknown) {
		t.Errorf("the revoked token: %v", err)
	}
}
