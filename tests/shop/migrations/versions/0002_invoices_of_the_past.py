"""Every order of the past gets its invoice, which needs what pgcron_ha's revision makes."""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = "pgcron_0001"


def upgrade() -> None:
    op.execute(
        "SELECT pgcron.enqueue('py:send_invoice', args => jsonb_build_object('order', id),"
        " delivery => 'transactional') FROM orders"
    )


def downgrade() -> None:
    pass
