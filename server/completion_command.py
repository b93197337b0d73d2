"""`triokeeper completion`: what makes a shell complete the commands, options and files of `triokeeper`."""

import click
from click.shell_completion import get_completion_class

from server.command import COMPLETION_VARIABLE, PROGRAM

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion of `triokeeper` for a shell.

    \b
    bash: add to ~/.bashrc   eval "$(triokeeper completion bash)"
    zsh:  add to ~/.zshrc    eval "$(triokeeper completion zsh)"
    fish: triokeeper completion fish > ~/.config/fish/completions/triokeeper.fish
    """
    script = get_completion_class(shell)
    assert script is not None
    click.echo(script(ctx.find_root().command, {}, PROGRAM, COMPLETION_VARIABLE).source())
