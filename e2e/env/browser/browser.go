package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// The window, in pixels.
const width, height = 1360, 860

// Find returns the path of Chromium. The error says how to install it.
func Find() (string, error) {
	if path := os.Getenv("CHROMIUM"); path != "" {
		return path, nil
	}
	path, err := exec.LookPath("chromium")
	if err != nil {
		return "", errors.New("chromium is not installed: apt-get install -y chromium (or name another one in CHROMIUM)")
	}
	return path, nil
}

// Browser is a running Chromium. Close ends it.
type Browser struct {
	ctx   context.Context //nolint:containedctx // chromedp keeps the browser in it
	close []context.CancelFunc
}

// Start starts a Chromium that ends with ctx at the latest.
func Start(ctx context.Context) (*Browser, error) {
	path, err := Find()
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.Flag("headless", "new"),
		chromedp.Flag("no-sandbox", true), // tests may run as root, for whom there is no sandbox
		chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.WindowSize(width, height),
	)
	allocated, end := chromedp.NewExecAllocator(ctx, options...)
	// A Chromium that is newer than the library sends events that it does not know, and that nobody asked for.
	first, closeFirst := chromedp.NewContext(allocated, chromedp.WithErrorf(func(string, ...any) {}))
	b := &Browser{ctx: first, close: []context.CancelFunc{closeFirst, end}}
	if err := chromedp.Run(first); err != nil {
		b.Close()
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	return b, nil
}

// Close ends the browser.
func (b *Browser) Close() {
	for _, end := range b.close {
		end()
	}
}

// Tab is a page of the browser. It is not safe for concurrent use.
type Tab struct {
	ctx   context.Context //nolint:containedctx // chromedp keeps the tab in it
	close func()

	mu     sync.Mutex
	errors []string
}

// Open opens a tab in a browsing context of its own: no cookie, no connection is shared.
func (b *Browser) Open() (*Tab, error) {
	// Not chromedp.WithNewBrowserContext: a new browsing context has no window yet, without which
	// Chromium opens no tab in it.
	executor := cdp.WithExecutor(b.ctx, chromedp.FromContext(b.ctx).Browser)
	browsing, err := target.CreateBrowserContext().Do(executor)
	if err != nil {
		return nil, fmt.Errorf("new browsing context: %w", err)
	}
	dispose := func() { _ = target.DisposeBrowserContext(browsing).Do(executor) } // it ends with the browser at the latest
	id, err := target.CreateTarget("about:blank").WithBrowserContextID(browsing).WithNewWindow(true).WithWidth(width).WithHeight(height).Do(executor)
	if err != nil {
		dispose()
		return nil, fmt.Errorf("open a tab: %w", err)
	}
	ctx, end := chromedp.NewContext(b.ctx, chromedp.WithTargetID(id))
	t := &Tab{ctx: ctx, close: func() {
		end()
		dispose()
	}}
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			t.add("thrown: " + e.ExceptionDetails.Error())
		case *log.EventEntryAdded:
			if e.Entry.Level == log.LevelError {
				t.add(fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
			}
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.APITypeError {
				t.add("console.error")
			}
		}
	})
	return t, t.Do(log.Enable())
}

// Close closes the tab.
func (t *Tab) Close() { t.close() }

func (t *Tab) add(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.errors = append(t.errors, text)
}

// Errors returns what went wrong in the page since the last call.
func (t *Tab) Errors() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.errors
	t.errors = nil
	return all
}

// Do carries out actions, for half a minute at most.
func (t *Tab) Do(actions ...chromedp.Action) error {
	if err := chromedp.Run(t.ctx); err != nil { // attaches the tab, whose life is not that of a call
		return err
	}
	ctx, cancel := context.WithTimeout(t.ctx, 30*time.Second)
	defer cancel()
	return chromedp.Run(ctx, actions...)
}

// Go opens an address.
func (t *Tab) Go(url string) error { return t.Do(chromedp.Navigate(url)) }

// Before has a script run in every page of the tab before those of the page.
func (t *Tab) Before(script string) error {
	return t.Do(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(script).Do(ctx)
		return err
	}))
}

// Eval evaluates an expression, whose promise is awaited, and decodes its value into result;
// nil: it is not wanted.
func (t *Tab) Eval(expression string, result any) error {
	await := func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
	return t.Do(chromedp.Evaluate(expression, result, await))
}

// Text returns the text of the page that people see.
func (t *Tab) Text() (string, error) {
	var text string
	err := t.Eval(`document.body.innerText`, &text)
	return text, err
}

// Await waits until the text of the page has all the words; the error says what it had.
func (t *Tab) Await(limit time.Duration, words ...string) error {
	return t.Until(limit, func(text string) bool {
		for _, word := range words {
			if !strings.Contains(text, word) {
				return false
			}
		}
		return true
	}, strings.Join(words, ", "))
}

// Until waits until the text of the page is as wanted, which is described for the error.
func (t *Tab) Until(limit time.Duration, wanted func(text string) bool, description string) error {
	end := time.Now().Add(limit)
	for {
		text, err := t.Text()
		if err == nil && wanted(text) {
			return nil
		}
		if time.Now().After(end) {
			return errors.Join(fmt.Errorf("within %v the page did not show: %s; it shows:\n%s", limit, description, text), err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Scheme has the page shown as on a system that prefers `dark` or `light`.
func (t *Tab) Scheme(name string) error {
	return t.Do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}))
}

// Press presses keys one after another, as chromedp/kb names them.
func (t *Tab) Press(keys string) error { return t.Do(chromedp.KeyEvent(keys)) }

// Click clicks the first element of a selector, once it is to be seen.
func (t *Tab) Click(selector string) error {
	return t.Do(chromedp.Click(selector, chromedp.ByQuery, chromedp.NodeVisible))
}

// Screenshot returns a picture of what the window shows, PNG.
func (t *Tab) Screenshot() ([]byte, error) {
	var png []byte
	err := t.Do(chromedp.CaptureScreenshot(&png))
	return png, err
}
