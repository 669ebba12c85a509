"""${message}"""

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}


def upgrade() -> None:
    ${upgrades if upgrades else "raise SystemExit('write this migration')"}


def downgrade() -> None:
    ${downgrades if downgrades else "raise SystemExit('write this migration')"}
