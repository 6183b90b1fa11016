"""Chinese nicknames by their form: 小美, 阿强, 老王. Pure."""

from __future__ import annotations

import re
from typing import Final

NO_NAME: Final = (
    "学时声姐妹弟哥心孩区组班说的气住睡病有姨公婆产号名店车腿床票费吃额事肚手包卡楼院屋便伤灶臂指猫狗宠米里点偷"
    "数众型程吵丑人鬼雪雨麦暑寒满年考测结菜船鱼摊贩错账奖儿女叔舅姑三爸妈爷奶伯嫂婶娘侄婿娃崽子伙妞辈兵工生"
    "样鸟鸡鸭羊牛猪虫兔熊妖道路河溪山岛镇村城巷街国家窝灯刀碗杯瓶盒袋桶报册书画字本节段篇诗曲调品戏歌看瞧聚"
    "坐酌试修改补动变葱蒜瓜豆枣面粉饼饺炒酒茶药痣脑肠腹计量利钱贷股户题康资草树苗球棒棍旗鞋衣裤裙帽袄桌椅柜铺"
    "馆厂站队团圈群伞礼视胶斗拉根富司莫门尔"
)
"""What makes a word or a relative of 小 and 阿: 小雪, 小麦, 小舅, 阿胶, 阿拉伯."""
NICKNAME: Final = (
    rf"(?:[小阿](?![{NO_NAME}])[\u4e00-\u9fff]"
    r"|老[王李张刘陈杨赵黄周吴徐孙胡朱林何郭马罗梁宋郑谢韩唐冯董程曹袁邓许沈彭吕苏卢蒋蔡])"
)
"""A person by the form of the name."""
_LITTLE: Final = re.compile(r"[小阿][\u4e00-\u9fff]")
_NICKNAME_ONLY: Final = re.compile(NICKNAME)


def is_word(name: str) -> bool:
    """Tell whether what looks like a nickname is a word, as 小产."""
    return bool(_LITTLE.fullmatch(name)) and not _NICKNAME_ONLY.fullmatch(name)
