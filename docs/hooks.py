"""Hooks of mkdocs: pictures of results, which lie beside docs/, and links of the tutorials.

Pages name pictures by their place in the repository, so that they are seen there too; the site
gets copies. Tutorials are rendered by Jupyter, which does not know the addresses of other pages.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

PICTURE = re.compile(r"\]\(((?:\.\./)*)\.\./((?:benchmarks/)?results/[\w/.-]+\.png)\)")
LINK = re.compile(r'href="(?!\w+:|#)([^"#]+\.(?:md|py))(#[^"]*)?"')


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pictures that pages show."""
    root = Path(config.docs_dir).parent
    pages = [file for file in files if file.src_uri.endswith(".md")]
    found = {name for page in pages for _, name in PICTURE.findall(page.content_string)}
    for name in sorted(found):
        files.append(File.generated(config, name, abs_src_path=str(root / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Points a page to the site's copies."""
    return PICTURE.sub(r"](\1\2)", markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns a tutorial's links to files into the addresses of their pages.

    Raises:
      PluginError: a link leads nowhere, or Jupytext took a tutorial's cells for plain Python, which
        it does if the header names no extension.
    """
    if not page.file.src_uri.endswith(".py"):
        return html
    if "%% [markdown]" in html:
        raise PluginError(f"{page.file.src_uri} is not read as cells: see the other headers")
    folder = posixpath.dirname(page.file.src_uri)

    def address(link: re.Match[str]) -> str:
        target = files.get_file_from_path(posixpath.normpath(posixpath.join(folder, link[1])))
        if target is None:
            raise PluginError(f"{page.file.src_uri} links to {link[1]}, which is no page")
        return f'href="{get_relative_url(target.url, page.url)}{link[2] or ""}"'

    return LINK.sub(address, html)
