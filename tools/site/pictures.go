package site

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// PictureFolder holds the drawn diagrams, seen from the root of the repository.
const PictureFolder = "docs/pictures"

// pictureName is the file of a diagram. It follows from what the page says, so a diagram
// that was changed and not drawn again is missed.
func pictureName(diagram string) string {
	sum := sha256.Sum256([]byte(strings.TrimSpace(diagram)))
	return hex.EncodeToString(sum[:6]) + ".svg"
}

// diagrams are the mermaid diagrams of a page.
func (p *page) diagrams() []string {
	var all []string
	_ = ast.Walk(p.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		if block, ok := n.(*ast.FencedCodeBlock); ok && entering && isDiagram(block, p.source) {
			all = append(all, string(block.Lines().Value(p.source)))
		}
		return ast.WalkContinue, nil
	})
	return all
}

func isDiagram(block *ast.FencedCodeBlock, source []byte) bool {
	return string(block.Language(source)) == "mermaid"
}

// drawing is a diagram as the picture that was drawn of it.
type drawing struct {
	ast.BaseBlock
	svg []byte
}

var kindDrawing = ast.NewNodeKind("Drawing")

func (d *drawing) Kind() ast.NodeKind            { return kindDrawing }
func (d *drawing) Dump(source []byte, level int) { ast.DumpHelper(d, source, level, nil, nil) }

// draw puts drawings in the place of the diagrams of a page.
func (p *page) draw(root string) error {
	var problems []error
	var blocks []*ast.FencedCodeBlock
	_ = ast.Walk(p.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		if block, ok := n.(*ast.FencedCodeBlock); ok && entering && isDiagram(block, p.source) {
			blocks = append(blocks, block)
		}
		return ast.WalkContinue, nil
	})
	for _, block := range blocks {
		svg, err := readPicture(root, string(block.Lines().Value(p.source)))
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", p.path, err))
			continue
		}
		block.Parent().ReplaceChild(block.Parent(), block, &drawing{svg: svg})
	}
	return errors.Join(problems...)
}

// drawings writes drawings.
type drawings struct{}

func (drawings) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(kindDrawing, func(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if d, ok := n.(*drawing); ok && entering {
			if _, err := fmt.Fprintf(w, "<figure class=\"diagram\">%s</figure>\n", d.svg); err != nil {
				return ast.WalkStop, err
			}
		}
		return ast.WalkContinue, nil
	})
}

// readPicture is the drawing of a diagram.
func readPicture(root, diagram string) ([]byte, error) {
	name := pictureName(diagram)
	svg, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(PictureFolder), name))
	if errors.Is(err, os.ErrNotExist) {
		first, _, _ := strings.Cut(strings.TrimSpace(diagram), "\n")
		return nil, fmt.Errorf("the diagram that begins with %q was not drawn (%s/%s); run make pictures and commit what it writes", first, PictureFolder, name)
	}
	return svg, err
}
